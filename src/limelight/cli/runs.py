"""The commands that train models and show runs. Imports late, so that `--help` does not wait for torch."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from limelight.cli.options import Data, Device, Engine, Flag, Json, Log, RunFolder, Settings


def recipes() -> None:
    """List all recipes.

    Example: limelight recipes
    """
    from limelight.recipes import recipes

    found = recipes()
    width = max(map(len, found))
    for name, about in found.items():
        print(f"{name:{width}}  {about}")


def train(
    recipe: str,
    *,
    settings: Settings = (),
    data: Data = None,
    start: Annotated[Path | None, Parameter(name="--from")] = None,
    out: Path | None = None,
    resume: Flag = False,
    allow_inexact: Flag = False,
    log: Log = (),
    device: Device = "auto",
    compiled: Annotated[bool, Parameter(name="--compile", negative="")] = False,
) -> None:
    """Train a model from a recipe, and write checkpoints, a report and figures to a run folder.

    Example: limelight train reverse --set model.heads=2 --set train.epochs=3 --out runs/two-heads

    Example: limelight train text --data new.csv --from runs/text --out runs/new

    Example: limelight train digits --log tensorboard

    Parameters
    ----------
    recipe
        Name of a recipe (see `limelight recipes`), your own TOML file, a plug-in (.py file), or a run folder
        to resume.
    start
        Run folder to start from: all weights that fit are taken over, and so are the vocabulary and the
        settings of the model. What does not fit is listed. train.freeze and train.rates train less of it.
    out
        Run folder to write. By default runs/NAME, where NAME is the name of the recipe.
    resume
        Continue from the newest checkpoint of the run folder. The result is bit-identical to that of an
        uninterrupted run.
    allow_inexact
        With --resume: resume even if settings, versions of libraries or the number of threads have changed;
        the result may then differ. The data, the optimiser, train.average and all shapes must be the same.
    compiled
        Compile the model with torch.compile, which can make training faster on GPUs.
    """
    from limelight.experiment import train
    from limelight.experiment.config import setting
    from limelight.experiment.logs import open_logs
    from limelight.terminal import show_report
    from limelight.training.distributed import first_process
    from limelight.training.progress import watcher

    run = train(
        recipe,
        dict(map(setting, settings)),
        out,
        data=data,
        start=start,
        resume=resume,
        inexact=allow_inexact,
        device=device,
        compiled=compiled,
        log=log,
        watcher=watcher(),
    )
    if first_process():
        show_report(run, open_logs(log, run.path, run.experiment))


def see(
    run: Annotated[
        str, Parameter(help="Run folder of `limelight train`, or FILE.py::NAME for a model of your own.")
    ],
    given: str | None = None,
    *,
    out: Path | None = None,
    dark: Flag = False,
    importance: Flag = False,
    device: Device = "auto",
) -> None:
    """Show the attention of every layer and head of a trained model, as an HTML page or a figure.

    FILE.py::NAME is a model, or a function that returns (model, inputs, tokens): any model of PyTorch, whose
    attention is found while it runs. The file is executed.

    Example: limelight see runs/translate "She does not wear her red shirt."

    Example: limelight see runs/digits seven.png --out seven-attention.png

    Example: limelight see model.py::example

    Example: limelight see runs/translate --importance

    Parameters
    ----------
    given
        Input: a line of text, a text file (its first eight inputs), or an image file. By default, examples of
        the test or validation split. For a model in a file, token ids: "5 3 9".
    out
        File to write. By default report.html in the run folder, or NAME.html. The suffix selects the format:
        .html is an interactive page that works offline; .png, .svg and .pdf are figures of one input, with at
        most 24 attention maps (of translations, cross-attention only); .json contains all attention weights.
    dark
        Draw the figure on a dark background. An HTML page follows the setting of the browser.
    importance
        Evaluate the model without each of its heads on 400 held-out examples, print what the metric loses,
        and add a bar chart to the page. A figure is the bar chart alone.
    """
    from limelight.cli.answers import looks_like_a_file
    from limelight.errors import WrongInput
    from limelight.experiment import open_run
    from limelight.experiment.pages import write_importance, write_records
    from limelight.view.script import is_script, see_script

    if is_script(run):
        if importance:
            raise WrongInput("--importance needs a run folder: it evaluates a model on held-out examples")
        name = run.partition("::")[2]
        print(see_script(run, given).save(out or f"{name}.html", dark=dark))
        return
    path = out or Path(run) / "report.html"
    if given is not None and looks_like_a_file(given) and not Path(given).is_file():
        raise WrongInput(f"{given}: No such file or directory")
    opened = open_run(run, device=device)
    if importance:
        write_importance(opened, given, path, dark=dark)
    else:
        write_records(opened, given, path, dark=dark)
    print(path)


def serve(
    run: RunFolder,
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = 8765,
    host: str = "127.0.0.1",
    token: str = "",
    engine: Engine = "torch",
    device: Device = "auto",
) -> None:
    """Serve a live page that shows predictions and attention maps while you type, and an HTTP API.

    Example: limelight serve runs/translate

    Example: limelight serve runs/translate --host 0.0.0.0 --token "$(openssl rand -hex 16)"

    Parameters
    ----------
    port
        Port of the address. 0 selects a free port.
    host
        Address to listen on. By default only this machine can reach it. 0.0.0.0 means all networks; it needs
        --token. The connection is not encrypted.
    token
        A secret of at least 16 letters, digits, - or _ that every request must have. The printed address
        contains it.
    """
    from limelight.experiment import open_run
    from limelight.experiment.pages import about
    from limelight.view.server.app import check_access
    from limelight.view.server.app import serve as serve_page

    check_access(host, token)
    opened = open_run(run, device=device, engine=engine)
    serve_page(opened.record, about(opened), port, host=host, token=token)


def explain(
    recipe: str,
    *,
    settings: Settings = (),
    data: Data = None,
    list_settings: Annotated[bool, Parameter(name="--settings", negative="")] = False,
    as_json: Json = False,
) -> None:
    """Print the shapes, parameters and cost in multiply-adds of each layer of a model; or its settings.

    Example: limelight explain reverse --set model.heads=2

    Example: limelight explain reverse --settings

    Parameters
    ----------
    recipe
        Name of a recipe (see `limelight recipes`), your own TOML file, a plug-in (.py file), or a run folder.
    list_settings
        List all settings of the recipe instead, with their values, defaults, allowed values and meanings.
    as_json
        Print one JSON document.
    """
    from limelight.experiment.config import experiment, sections_of, setting
    from limelight.experiment.explain import explain_experiment
    from limelight.terminal import show_explanation, show_settings

    changed = dict(map(setting, settings))
    if list_settings:
        show_settings(sections_of(experiment(recipe, changed, data)), as_json=as_json)
    else:
        show_explanation(explain_experiment(recipe, changed, data), as_json=as_json)
