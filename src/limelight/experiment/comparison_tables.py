"""The tables of a comparison, for the terminal, for pages and for figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from limelight.experiment.compared_runs import ComparedRun
from limelight.experiment.comparison import Comparison
from limelight.experiment.grid import short_names, value_text
from limelight.training.progress import show_metric
from limelight.view.plots.attention import shorten

GAP = "  "
LONGEST_CELL = 28  # characters
MOST_COLUMNS = 4  # more runs are rows
BEST = " *"


@dataclass(frozen=True)
class Fact:
    """One property of all runs: its name, a short one for a narrow column, and a text per run."""

    name: str
    short: str
    texts: list[str]


def facts(comparison: Comparison) -> list[Fact]:
    """What is compared: settings that differ, metrics, parameters, steps and time. The best are marked."""
    runs = comparison.runs
    short = short_names(comparison.settings)
    found = [
        Fact(key, short[key], [shorten(value_text(value), LONGEST_CELL) for value in values])
        for key, values in comparison.settings.items()
    ]
    for name, values in comparison.metrics.items():
        best = comparison.best.get(name)
        found.append(Fact(name, name, [_metric(name, value, best) for value in values]))
    for name in dict.fromkeys(name for run in runs for name in run.baseline):
        found.append(Fact(name, name, [_metric(name, run.baseline.get(name)) for run in runs]))
    found.append(Fact("parameters", "parameters", [_parameters(run) for run in runs]))
    found.append(Fact("steps (best)", "steps (best)", [_steps(run) for run in runs]))
    found.append(Fact("training time", "training time", [_seconds(run) for run in runs]))
    return found


def run_table(comparison: Comparison) -> list[list[str]]:
    """The head and the rows of the table of runs. Up to four runs are columns; more runs are rows."""
    found, names = facts(comparison), [shorten(run.name, LONGEST_CELL) for run in comparison.runs]
    if len(names) <= MOST_COLUMNS:
        return [["", *names], *([fact.name, *fact.texts] for fact in found)]
    rows = zip(names, *(fact.texts for fact in found), strict=True)
    return [["run", *(fact.short for fact in found)], *map(list, rows)]


def seed_table(comparison: Comparison) -> list[list[str]]:
    """Mean, standard deviation and range of each metric over the runs that differ only in their seed."""
    rows = [["metric", "settings", "runs", "mean", "std. dev.", "min", "max"]]
    for name in comparison.metrics:
        for number, group in enumerate(comparison.groups):
            spread = group.metrics.get(name)
            label = shorten(group.label, LONGEST_CELL)
            shown = ["–"] * 4
            if spread is not None:
                mean, smallest, largest = (
                    _metric(name, value) for value in (spread.mean, spread.smallest, spread.largest)
                )
                shown = [mean, _deviation(name, spread.deviation), smallest, largest]
            rows.append(["" if number else name, label, str(group.finished), *shown])
    return rows


def as_text(comparison: Comparison, width: int = 80) -> str:
    """The tables and notes as lines of at most this width, where their columns can be divided so."""
    parts = _blocks(run_table(comparison), width)
    parts += ["* best"] if comparison.best else []
    if comparison.has_seeds:
        parts += ["runs that differ only in their seed:", *_blocks(seed_table(comparison), width)]
    return "\n\n".join([*parts, *(f"note: {note}" for note in comparison.notes)])


def _blocks(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The table as aligned lines; if it is too wide, as several tables with the same first column."""
    marked = len(BEST) * any(cell.endswith(BEST) for row in rows for cell in row)  # space for marks
    sizes = [max(cell_len(cell.removesuffix(BEST)) for cell in column) for column in zip(*rows, strict=True)]
    sizes = [size + (marked if place else 0) for place, size in enumerate(sizes)]
    blocks, free = [[0]], 0
    for column in range(1, len(sizes)):
        needed = len(GAP) + sizes[column]
        if len(blocks[-1]) > 1 and needed > free:
            blocks.append([0])
        if len(blocks[-1]) == 1:
            free = width - sizes[0]
        blocks[-1].append(column)
        free -= needed
    return ["\n".join(_line(row, sizes, block, marked) for row in rows) for block in blocks]


def _line(row: Sequence[str], sizes: Sequence[int], block: Sequence[int], marked: int) -> str:
    first, *others = block
    cells = [row[first] + " " * (sizes[first] - cell_len(row[first]))]
    for column in others:  # right-aligned; a mark is beside the column
        text = row[column] if row[column].endswith(BEST) else row[column] + " " * marked
        cells.append(" " * (sizes[column] - cell_len(text)) + text)
    return GAP.join(cells).rstrip()


def _metric(name: str, value: float | None, best: float | None = None) -> str:
    """A value, with a mark if it is the best one."""
    if value is None:
        return "–"
    return show_metric(name.split(" ")[-1], value) + (BEST if value == best else "")


def _deviation(name: str, value: float | None) -> str:
    """The deviation in the unit of its metric; an accuracy is not rounded down here."""
    if value is None:
        return "–"
    return f"{value:.2%}".replace("%", " %") if _metric(name, 0.0).endswith("%") else _metric(name, value)


def _parameters(run: ComparedRun) -> str:
    return f"{run.report.parameters:,}" if run.report else "–"


def _steps(run: ComparedRun) -> str:
    if run.report is None:
        return f"not finished, {run.step:,}"
    return f"{run.step:,} ({run.report.best_step:,})"


def _seconds(run: ComparedRun) -> str:
    return f"{run.report.seconds:,.1f} s" if run.report else "–"
