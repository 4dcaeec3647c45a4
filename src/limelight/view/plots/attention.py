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

COLOUR_MAP = "viridis"  # perceptually uniform, also for colour-blind readers and in greyscale
MASKED_COLOUR = "0.93"  # light grey, for weights that are exactly zero because of a mask
MAPS_PER_ROW = 4
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
    grid_rows = math.ceil(heads / MAPS_PER_ROW)
    grid_columns = math.ceil(heads / grid_rows)
    inches = (1.5 + grid_columns * _map_inches(columns), 1.3 + grid_rows * _map_inches(rows))
    figure = Figure(figsize=inches, layout="compressed")
    grid = figure.subplots(grid_rows, grid_columns, squeeze=False).flatten()
    maps_HTS = weights.detach().float().cpu().numpy()
    largest = float(maps_HTS.max())  # one colour scale for all heads, so that they can be compared
    for head, axes in enumerate(grid):
        if head < heads:
            picture = _draw_map(axes, maps_HTS[head], queries, keys, largest)
            axes.set_title(names[head] if names else f"head {head}", fontsize=10)
            axes.set_ylabel("query" if head % grid_columns == 0 else "")
            axes.set_xlabel("key" if head + grid_columns >= heads else "")
        else:
            axes.set_axis_off()
    figure.colorbar(picture, ax=list(grid), label="attention weight")
    if title:
        figure.suptitle(escape_dollars(title), fontsize=12)
    return figure


def draw_curves(journal: Sequence[dict[str, Any]], metric: str, *, title: str = "") -> Figure:
    """Plot loss and `metric` on the training and validation split against epochs.

    Each entry of the journal is one evaluation: {"epoch": 1.0, "train": {"loss": …}, "validation": {…}}.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    epochs = [line["epoch"] for line in journal]
    for axes, name in zip(figure.subplots(1, 2), ("loss", metric), strict=True):
        for split, style in (("train", "--"), ("validation", "-")):
            values = [line[split][name] for line in journal]
            axes.plot(epochs, values, style, marker="." if len(epochs) < 40 else "", label=SPLIT_NAMES[split])
        axes.set_xlabel("epoch")
        axes.set_title(name, fontsize=10)
        axes.grid(alpha=0.3)
        if name == "accuracy":
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend()
    if title:
        figure.suptitle(escape_dollars(title), fontsize=12)
    return figure


def _draw_map(
    axes: Axes,
    map_TS: NDArray[np.float32],
    queries: Sequence[object] | None,
    keys: Sequence[object] | None,
    largest: float,
) -> AxesImage:
    colours = matplotlib.colormaps[COLOUR_MAP].with_extremes(bad=MASKED_COLOUR)
    picture = axes.imshow(np.ma.masked_equal(map_TS, 0.0), cmap=colours, vmin=0.0, vmax=largest)
    label_axes(axes, queries, keys)
    return picture


def label_axes(axes: Axes, queries: Sequence[object] | None, keys: Sequence[object] | None) -> None:
    """Label the y axis with `queries` and the x axis with `keys`; without tokens, with positions."""
    for axis, tokens in ((axes.yaxis, queries), (axes.xaxis, keys)):
        if tokens is None:
            axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        else:
            axis.set_ticks(range(len(tokens)), [escape_dollars(token) for token in tokens], fontsize=8)
    if keys is not None and max((len(str(key)) for key in keys), default=0) > 2:
        axes.tick_params(axis="x", rotation=90)


def _map_inches(tokens: int) -> float:
    """Large enough for readable labels, with an upper limit so that the image file can still be opened."""
    return min(max(1.9, 0.27 * tokens), 10.0)


def escape_dollars(token: object) -> str:
    """Return the token as text for matplotlib, where an unescaped dollar sign would start a formula."""
    return str(token).replace("$", r"\$")
