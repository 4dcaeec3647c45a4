"""The training curves of several runs in one figure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import PercentFormatter

from limelight.view.plots.attention import MANY, SPLIT_NAMES, escape_dollars, shorten

STYLES = ("-", "--", "-.", ":")
COLOURS = 10  # of the cycle of matplotlib
LONGEST_LABEL = 40  # characters of a run
MOST_LABELS = 24  # in a legend
# Inches:
WIDTH, HEIGHT = 6.0, 5.6  # of the plots of a metric, without their legend
LINE, CHARACTER = 0.14, 0.07  # of a table in small monospaced letters
LABEL, LINE_OF_LABEL = 0.17, 0.6  # height of a label; width of the line before it

Journals = Mapping[str, Sequence[dict[str, Any]]]


def draw_runs(journals: Journals, metric: str, groups: Sequence[int] | None = None) -> Figure:
    """Plot `metric` of several runs against epochs, on the training and on the validation split.

    `journals` are the evaluations of each run by its label, as in `draw_curves`. Runs with the same number in
    `groups` have the same colour and different line styles; by default, each run has a colour of its own.
    """
    columns, height = _legend_size(journals)
    figure = Figure(figsize=(WIDTH, HEIGHT + height), layout="constrained")
    _draw_metric(figure, journals, metric, groups, columns)
    return figure


def draw_table_and_runs(
    table: str, journals: Journals, metrics: Sequence[str], groups: Sequence[int] | None = None
) -> Figure:
    """A text with aligned columns, and below it the plots of several metrics side by side."""
    lines = table.split("\n")
    columns, height = _legend_size(journals)
    heights = [LINE * (len(lines) + 2), HEIGHT + height]
    width = max(WIDTH * len(metrics), CHARACTER * max(map(len, lines)))
    figure = Figure(figsize=(width, sum(heights) if metrics else heights[0]), layout="constrained")
    place: Figure | SubFigure = figure
    if metrics:
        place, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
        parts = below.subfigures(1, len(metrics), squeeze=False)[0]
        for part, metric in zip(parts, metrics, strict=True):
            _draw_metric(part, journals, metric, groups, columns)
    text = place.text(0.01, 0.98, escape_dollars(table), va="top", family="monospace", fontsize=8)
    text.set_linespacing(1.2)
    return figure


def _legend_size(journals: Journals) -> tuple[int, float]:
    """The columns of the legend, and its height in inches."""
    labels = [shorten(label, LONGEST_LABEL) for label in journals][:MOST_LABELS]
    longest = CHARACTER * max(map(len, labels), default=0) + LINE_OF_LABEL
    columns = min(max(1, int(WIDTH / longest)), max(1, len(labels)))
    return columns, LABEL * math.ceil(len(labels) / columns) + LABEL


def _draw_metric(
    figure: Figure | SubFigure,
    journals: Journals,
    metric: str,
    groups: Sequence[int] | None,
    columns: int,
) -> None:
    styles = _styles(groups or range(len(journals)))
    both = figure.subplots(2, 1, sharex=True)
    for axes, split in zip(both, SPLIT_NAMES, strict=True):
        _draw_split(axes, journals, split, metric, styles)
        axes.set_ylabel(SPLIT_NAMES[split])
    both[-1].set_xlabel("epoch")
    lines, labels = both[-1].get_legend_handles_labels()
    figure.legend(
        lines[:MOST_LABELS], labels[:MOST_LABELS], loc="outside lower center", ncols=columns, fontsize=8
    )
    figure.suptitle(metric, fontsize=12)


def _draw_split(
    axes: Axes, journals: Journals, split: str, metric: str, styles: Sequence[tuple[str, str]]
) -> None:
    for (label, journal), (colour, style) in zip(journals.items(), styles, strict=True):
        known = [line for line in journal if metric in line[split]]
        values = [line[split][metric] for line in known]
        axes.plot(
            [line["epoch"] for line in known],
            [value if math.isfinite(value) else math.nan for value in values],
            style,
            color=colour,
            marker="." if len(known) < MANY else "",
            label=escape_dollars(shorten(label, LONGEST_LABEL)),
        )
    axes.set_xlim(left=0.0)
    axes.grid(alpha=0.3)
    if metric == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _styles(groups: Sequence[int]) -> list[tuple[str, str]]:
    """A colour per group; runs of a group, and groups of the same colour, have different line styles."""
    several = len(set(groups)) < len(groups)
    found, members = list[tuple[str, str]](), dict[int, int]()
    for group in groups:
        member = members[group] = members.get(group, -1) + 1
        style = member + group // COLOURS if several else group
        found.append((f"C{group % COLOURS}", STYLES[style % len(STYLES)]))
    return found
