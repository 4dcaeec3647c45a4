"""Figures of attention maps and training curves.

All figures use matplotlib's `Figure` class directly: no global state, and no display is needed.
"""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray
from torch import Tensor

from limelight.errors import wrong
from limelight.view.plots.layout import add_axes, arrange

COLOUR_MAP = "viridis"  # perceptually uniform, also for colour-blind readers and in greyscale
MASKED_COLOUR = "0.93"  # light grey, for weights that are exactly zero because of a mask
MAPS_PER_ROW = (4, 2, 1)  # preferred in this order
# Sizes of a sheet of maps in inches; figures are saved with 150 pixels per inch.
WIDEST, TALLEST = 13.0, 24.0  # of all maps together
LARGEST_MAP, SMALLEST_MAP = 8.0, 1.9
CELL, LARGEST_CELL = 0.27, 0.6
READABLE = 0.14  # a cell whose label can be read
BESIDE, BELOW = 0.3, 1.2  # space for the labels of a map
LONGEST_LABEL = 22  # characters of a token
MANY = 40  # evaluations whose markers would cover the line of a curve
SPLIT_NAMES = {"train": "training", "validation": "validation"}


def draw_attention(
    weights: Tensor,
    queries: Sequence[object] | None = None,
    keys: Sequence[object] | None = None,
    *,
    title: str = "",
    names: Sequence[str] | None = None,
) -> Figure:
    """(H, T, S) -> a figure with one attention map per head

    Rows are queries, columns are keys; a weight of exactly zero is grey. `queries` and `keys` are the
    tokens; for self-attention `keys` may be omitted. `names` are the titles of the maps, for a figure with
    the heads of several layers.
    """
    if weights.dim() != 3 or not weights.numel():
        raise wrong("weights", f"of shape {tuple(weights.shape)}", "(H, T, S), one sequence, not empty")
    heads, rows, columns = weights.shape
    keys = queries if keys is None and rows == columns else keys
    for name, tokens, size in (("queries", queries, rows), ("keys", keys, columns)):
        if tokens is not None and len(tokens) != size:
            raise wrong(f"the number of {name}", len(tokens), f"{size}, as many as in the weights")
    if names is not None and len(names) != heads:
        raise wrong("the number of names", len(names), f"{heads}, as many as heads in the weights")
    grid_columns, cell = _choose_grid(heads, rows, columns)
    figure = Figure()
    grid = [
        [add_axes(figure) for _ in range(heads)[start : start + grid_columns]]
        for start in range(0, heads, grid_columns)
    ]
    maps_HTS = weights.detach().float().cpu().numpy()
    largest = float(maps_HTS.max())  # one colour scale for all heads, so that they can be compared
    step = math.ceil(READABLE / cell)
    for head, axes in enumerate(axes for row in grid for axes in row):
        picture = _draw_map(axes, maps_HTS[head], largest)
        is_first = head % grid_columns == 0  # all maps have the same queries
        label_axes(axes, queries, keys, step)
        axes.tick_params(labelleft=is_first)
        axes.set_title(names[head] if names else f"head {head}", fontsize=10)
        axes.set_ylabel("query" if is_first else "")
        axes.set_xlabel("key" if head + grid_columns >= heads else "")
    bar = add_axes(figure)
    figure.colorbar(picture, cax=bar, label="attention weight")
    arrange(figure, grid, (columns * cell, rows * cell), bar=bar, title=escape_dollars(title))
    return figure


def draw_curves(journal: Sequence[dict[str, Any]], metric: str, *, title: str = "") -> Figure:
    """Plot loss and `metric` on the training and validation split against epochs; one evaluation as bars.

    Each entry of the journal is one evaluation: {"epoch": 1.0, "train": {"loss": …}, "validation": {…}}.
    """
    names = dict.fromkeys(("loss", metric))  # a metric that is the loss is drawn once
    figure = Figure(figsize=(4.5 * len(names), 3.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        if len(journal) == 1:
            _draw_bars(axes, journal[0], name)
        else:
            _draw_lines(axes, journal, name)
        axes.set_title(name, fontsize=10)
        if name == "accuracy":
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if title:
        figure.suptitle(escape_dollars(title), fontsize=12)
    return figure


def _draw_lines(axes: Axes, journal: Sequence[dict[str, Any]], name: str) -> None:
    epochs = [line["epoch"] for line in journal]
    marker = "." if len(epochs) < MANY else ""
    for split, style in (("train", "--"), ("validation", "-")):
        values = [line[split][name] for line in journal]
        axes.plot(epochs, values, style, marker=marker, label=SPLIT_NAMES[split])
    axes.set_xlabel("epoch")
    axes.set_xlim(left=0.0)
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_bars(axes: Axes, line: dict[str, Any], name: str) -> None:
    """The values of one evaluation as bars, because a curve needs more than one."""
    values = {SPLIT_NAMES[split]: line[split][name] for split in SPLIT_NAMES}
    heights = [value if math.isfinite(value) else 0.0 for value in values.values()]
    bars = axes.bar(list(values), heights, width=0.5, color=["C0", "C1"])
    texts = [f"{value:.1%}" if name == "accuracy" else f"{value:.4g}" for value in values.values()]
    axes.bar_label(bars, texts, padding=3)
    axes.set_xlim(-0.75, 1.75)
    axes.margins(y=0.15)
    axes.set_xlabel(f"after epoch {line['epoch']:.3g}")


def _choose_grid(heads: int, rows: int, columns: int) -> tuple[int, float]:
    """-> the maps per row and the size of a cell in inches, so that labels can be read where possible"""
    longest = max(rows, columns)
    most = min(max(CELL, SMALLEST_MAP / longest), LARGEST_CELL, LARGEST_MAP / longest)
    choices = []
    for maps_per_row in MAPS_PER_ROW:
        grid_rows = math.ceil(heads / maps_per_row)
        grid_columns = math.ceil(heads / grid_rows)
        width, height = WIDEST / grid_columns - BESIDE, TALLEST / grid_rows - BELOW
        choices.append((grid_columns, min(most, width / columns, max(height, 0.0) / rows)))
    return next(
        (choice for choice in choices if choice[1] >= READABLE), max(choices, key=lambda choice: choice[1])
    )


def _draw_map(axes: Axes, map_TS: NDArray[np.float32], largest: float) -> AxesImage:
    colours = matplotlib.colormaps[COLOUR_MAP].with_extremes(bad=MASKED_COLOUR)
    return axes.imshow(np.ma.masked_equal(map_TS, 0.0), cmap=colours, vmin=0.0, vmax=largest)


def label_axes(
    axes: Axes, queries: Sequence[object] | None, keys: Sequence[object] | None, step: int = 1
) -> None:
    """Label the y axis with `queries` and the x axis with `keys`; without tokens, with positions.

    With a larger step, only every `step`-th token is a label.
    """
    for axis, tokens in ((axes.yaxis, queries), (axes.xaxis, keys)):
        if tokens is None:
            axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        else:
            labels = [escape_dollars(shorten(token, LONGEST_LABEL)) for token in tokens[::step]]
            axis.set_ticks(range(0, len(tokens), step), labels, fontsize=8)
    if keys is not None and max((len(str(key)) for key in keys), default=0) > 2:
        axes.tick_params(axis="x", rotation=90)


def shorten(text: object, most: int) -> str:
    """The text in one line, with at most this number of characters; none that cannot be printed."""
    line = "".join(one if one.isprintable() else "\ufffd" for one in " ".join(str(text).split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def escape_dollars(token: object) -> str:
    """Return the token as text for matplotlib, where an unescaped dollar sign would start a formula."""
    return str(token).replace("$", r"\$")
