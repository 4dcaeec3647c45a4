"""The command line: one function per command."""

from cyclopts import App

from limelight import __version__
from limelight.cli.checks import check, mark
from limelight.cli.comparisons import compare, sweep
from limelight.cli.exports import export, import_
from limelight.cli.predictions import evaluate, generate, predict
from limelight.cli.runs import explain, recipes, see, serve, train
from limelight.cli.settings import init, settings

app = App(
    name="limelight",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help="""Build, check, train and see Transformers.

Start with `limelight train reverse`. `limelight COMMAND --help` describes a command.
""",
)
for _command in (
    recipes,
    train,
    sweep,
    compare,
    evaluate,
    predict,
    generate,
    see,
    serve,
    explain,
    export,
    settings,
    init,
    check,
    mark,
):
    app.command(_command)


app.command(import_, name="import")


@app.command(name="--install-completion")
def install_completion() -> None:
    """Install the completion of commands and options in your shell."""
    path = app.install_completion()
    script = path.read_text(encoding="utf-8")
    # bash: where there is nothing to complete, such as a file to check, complete the names of files.
    path.write_text(script.replace("complete -F ", "complete -o default -F "), encoding="utf-8")
    print(f"{path}: restart your shell to use it")
