"""`python -m limelight`, which is also what torchrun starts."""

from limelight.cli import main

main()
