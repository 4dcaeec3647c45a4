"""The command line: one function per command."""

from cyclopts import App

from limelight import __version__
from limelight.cli.checks import check, mark
from limelight.cli.runs import evaluate, explain, predict, recipes, see, serve, train

app = App(
    name="limelight",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help="""Build, check, train and see Transformers.

Start with `limelight train reverse`. `limelight COMMAND --help` describes a command.
""",
)
for _command in (recipes, train, evaluate, predict, see, serve, explain, check, mark):
    app.command(_command)
