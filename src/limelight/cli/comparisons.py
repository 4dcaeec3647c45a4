"""The commands that compare runs. Imports late, so that `--help` does not wait for torch."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from limelight.cli.options import Data, Device, Flag, Json, Log, RunFolder

Grid = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        negative="",
        show_default=False,
        help="""A setting with one or several values, such as model.heads=1,2,4. Can be repeated: each
        combination is trained. Lists and texts with commas are single values in brackets or quotation
        marks: train.freeze=[],["encoder"].""",
    ),
]


def compare(
    run: RunFolder,
    *runs: Path,
    given: Annotated[str | None, Parameter(name="--input", allow_leading_hyphen=True)] = None,
    out: Path | None = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Compare runs: settings that differ, metrics, parameters and time; curves and attention side by side.

    Of runs that differ only in their seed, the mean and the spread are shown, too. An unfinished run is shown
    as far as it is.

    Example: limelight compare runs/one-head runs/two-heads

    Example: limelight compare sweeps/reverse --out heads.png

    Example: limelight compare runs/a runs/b --input "3 1 4 1 5 9 2 6" --out a-and-b.html

    Parameters
    ----------
    runs
        More of them. The folder of a sweep means all of its runs.
    given
        Input whose attention the page shows: a line of text, a text file (its first eight inputs), or an
        image file. By default, examples of the test or validation split of the first run.
    out
        File to write. By default comparison.html in the current folder; with --json, none. The suffix selects
        the format: .html is a page with the table, the training curves, and explorers of attention side by
        side; .png, .svg and .pdf are figures of the table and the curves.
    as_json
        Print one JSON document with all runs, and mean and spread over seeds.
    """
    from limelight.experiment import compare
    from limelight.terminal import print_json, show_comparison

    path = out or (None if as_json else Path("comparison.html"))
    found = compare(run, *runs, out=path, given=given, device=device)
    if as_json:
        print_json(found.describe())
    else:
        show_comparison(found, path)


def sweep(
    recipe: str,
    *,
    settings: Grid = (),
    seeds: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    data: Data = None,
    out: Path | None = None,
    resume: Flag = False,
    log: Log = (),
    device: Device = "auto",
) -> None:
    """Train each combination of some settings, one run after the other, and compare the runs.

    Each run is a run folder in the folder of the sweep. Invalid settings of any of them are refused before
    the first one is trained.

    Example: limelight sweep reverse --set model.heads=1,2,4 --seeds 3 --out sweeps/heads

    Example: limelight sweep text --data reviews.csv --set train.rate=1e-3,3e-3 --set model.depth=1,2

    Example: limelight sweep sweeps/heads --resume

    Parameters
    ----------
    recipe
        Name of a recipe (see `limelight recipes`), your own TOML file, a plug-in (.py file), or the folder
        of a sweep to resume.
    seeds
        Number of seeds that each combination is trained with: the seed of the recipe and the following ones.
    out
        Folder to write. By default sweeps/NAME, where NAME is the name of the recipe.
    resume
        Continue a sweep: finished runs are kept, and an unfinished one is resumed. The result is
        bit-identical to that of an uninterrupted sweep.
    """
    from limelight.errors import Stopped
    from limelight.experiment import sweep
    from limelight.experiment.grid import grid_setting
    from limelight.experiment.sweep import PAGE
    from limelight.terminal import show_comparison
    from limelight.training.progress import watcher

    given = dict(map(grid_setting, settings))
    found = sweep(
        recipe,
        {key: values for key, values in given.items() if len(values) > 1},
        out,
        settings={key: values[0] for key, values in given.items() if len(values) == 1},
        seeds=seeds,
        data=data,
        resume=resume,
        device=device,
        log=log,
        make_watcher=watcher,
    )
    show_comparison(found, found.runs[0].path.parent / PAGE)
    if found.unfinished:
        names = ", ".join(run.name for run in found.unfinished)
        raise Stopped(f"{len(found.unfinished)} of {len(found.runs)} runs did not finish: {names}")
