"""How the user starts this program, for commands in messages that can be copied as they are."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """`limelight`, its path if it is not on the search path, or `python -m limelight`."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return "python -m limelight"
    found = shutil.which("limelight")
    if started.stem != "limelight" or (found and os.path.samefile(found, started)):
        return "limelight"
    return shlex.quote(os.path.relpath(started)) if started.is_file() else "limelight"
