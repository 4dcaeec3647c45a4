"""Compare runs: their settings, results and curves, and what their models attend to on the same inputs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from limelight.errors import WrongInput, wrong
from limelight.experiment.compared_runs import read_runs
from limelight.experiment.comparison import Comparison
from limelight.experiment.comparison_tables import as_text, run_table, seed_table
from limelight.experiment.config import FILE
from limelight.experiment.devices import choose
from limelight.experiment.examples import choose_examples, with_truth
from limelight.experiment.grid import read_sweep
from limelight.experiment.pages import inputs_of
from limelight.experiment.run import Run
from limelight.tasks.task import Example
from limelight.view.explorer import FIGURES
from limelight.view.page import Side, comparison_page
from limelight.view.plots.curves import draw_runs, draw_table_and_runs
from limelight.view.record import Record

MOST_SIDES = 6  # runs whose attention a page contains
EXAMPLES = 2  # correctly predicted examples, and as many others
TEXT_WIDTH = 150  # characters of the table in a figure
NEEDED = "attention is shown for runs with a checkpoint, whose data or --input is available"


def compare(
    *runs: str | Path, out: str | Path | None = None, given: str | None = None, device: str = "auto"
) -> Comparison:
    """Compare run folders; the folder of a sweep means all of its runs.

        comparison = limelight.compare("runs/one-head", "runs/two-heads", out="comparison.html")
        comparison.metrics["test accuracy"]

    `out` is a page (.html) or a figure (.png, .svg or .pdf) to write. The page shows the attention of the
    models on `given`, by default on held-out examples of the first run.
    """
    path = None if out is None else Path(out)
    if path is not None and path.suffix not in (".html", *FIGURES):
        raise wrong("--out", repr(str(path)), f"a name that ends in .html, {', '.join(FIGURES)}")
    if path is not None and not path.parent.is_dir():
        raise WrongInput(f"{path.parent}: there is no such folder")
    choose(device)
    found = Comparison(read_runs([one for run in runs for one in _expand(Path(run))]))
    if path is not None and path.suffix == ".html":
        path.write_text(draw_comparison_page(found, given, device), encoding="utf-8")
    elif path is not None:
        draw_comparison(found).savefig(path, dpi=150)
    return found


def _expand(path: Path) -> list[Path]:
    """The run folder; of a sweep, all runs that have begun."""
    swept = read_sweep(path)
    if swept is None:
        return [path]
    return [path / name for name in swept.runs if (path / name / FILE).is_file()]


def draw_comparison(comparison: Comparison) -> Figure:
    """The tables and the training curves as one figure."""
    journals, groups = _journals(comparison), _groups(comparison)
    return draw_table_and_runs(as_text(comparison, TEXT_WIDTH), journals, _drawn(comparison), groups)


def draw_comparison_page(comparison: Comparison, given: str | None, device: str = "auto") -> str:
    """The comparison as a page: tables, training curves, and the attention of several models side by side."""
    journals, groups = _journals(comparison), _groups(comparison)
    sides, notes = _sides(comparison, given, device)
    return comparison_page(
        "Comparison of runs",
        run_table(comparison),
        seed_table(comparison) if comparison.has_seeds else [],
        [*(["* best"] if comparison.best else []), *comparison.notes],
        [draw_runs(journals, metric, groups) for metric in _drawn(comparison)],
        sides,
        notes,
    )


def _journals(comparison: Comparison) -> dict[str, list[dict[str, object]]]:
    return dict(zip(comparison.labels, (run.journal for run in comparison.runs), strict=True))


def _groups(comparison: Comparison) -> list[int]:
    """The number of the group of each run."""
    return [
        next(place for place, group in enumerate(comparison.groups) if number in group.runs)
        for number in range(len(comparison.runs))
    ]


def _drawn(comparison: Comparison) -> list[str]:
    """The loss and the goals that were evaluated in some run."""
    evaluated = {metric for run in comparison.runs for line in run.journal for metric in line["validation"]}
    return [metric for metric in comparison.goals if metric in evaluated]


def _sides(comparison: Comparison, given: str | None, device: str) -> tuple[list[Side], list[str]]:
    """The records of some runs on the same inputs: of runs that differ only in their seed, the first ones.

    Notes name the runs that cannot read the inputs. An input that the first run cannot read is refused.
    """
    numbers = [number for number in _in_order(comparison) if comparison.runs[number].goal]
    if not numbers:
        return [], [NEEDED]
    first = Run(comparison.runs[numbers[0]].path, choose(device))
    try:
        chosen = _read_given(first, given)
        records = _records(first, chosen)
    except WrongInput as error:
        if given is not None:
            raise
        return [], [f"{NEEDED}: {error}"]
    sides, notes = [Side(comparison.labels[numbers[0]], records)], list[str]()
    typed = [
        example.given if isinstance(example.given, str) else record.given
        for example, record in zip(chosen, records, strict=True)
    ]
    for number in numbers[1:MOST_SIDES]:
        run = Run(comparison.runs[number].path, choose(device))
        try:
            records = _records(run, chosen) if _task(run) == _task(first) else _records_of_texts(run, typed)
            sides.append(Side(comparison.labels[number], records))
        except WrongInput as error:
            notes.append(f"{comparison.runs[number].name} cannot read this input: {error}")
    if len(numbers) > MOST_SIDES:
        notes.append(f"the attention of {MOST_SIDES} of {len(numbers)} runs is shown")
    return sides, notes


def _in_order(comparison: Comparison) -> Iterator[int]:
    """The first run of each group, then the second of each, and so on."""
    longest = max(len(group.runs) for group in comparison.groups)
    for place in range(longest):
        yield from (group.runs[place] for group in comparison.groups if place < len(group.runs))


def _read_given(run: Run, given: str | None) -> list[Example]:
    """The inputs of all runs: the given ones, or held-out examples of this run."""
    if given is not None:
        return [Example(text, ()) for text in inputs_of(run, given)]
    return choose_examples(run, EXAMPLES)


def _records(run: Run, examples: Sequence[Example]) -> list[Record]:
    """The records of a run whose task is that of the examples, with their correct answers."""
    records = _valid(run.record([one.given for one in examples]))
    return [with_truth(record, example) for record, example in zip(records, examples, strict=True)]


def _records_of_texts(run: Run, texts: Sequence[str]) -> list[Record]:
    """The records of a run with another task, which has other correct answers or none."""
    if not all(texts):
        raise WrongInput("it has another task, and the input is not a text; use --input")
    return _valid(run.record(texts))


def _valid(found: Sequence[Record | WrongInput]) -> list[Record]:
    """The records, if no input is invalid."""
    for one in found:
        if isinstance(one, WrongInput):
            raise one
    return [one for one in found if isinstance(one, Record)]


def _task(run: Run) -> dict[str, object]:
    """The settings of the task, without the path of its data."""
    return run.experiment.task.model_dump(mode="json", exclude={"data": {"path"}})
