"""The command line. Imports late, so that `--help` does not wait for torch."""

import sys

from cyclopts import App, CycloptsError

from limelight import __version__

app = App(
    name="limelight",
    version=__version__,
    help="""Build, check, train and see Transformers.

This version is a library: `from limelight.nn import MultiHeadAttention`. The README shows where to begin.
""",
)


def main(arguments: list[str] | None = None) -> None:
    """Exit code 0: done. 2: wrong input, said in one line."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(f"limelight: {error}", file=sys.stderr)
        sys.exit(2)
