"""Pictures of attention, on matplotlib's Figure interface: no global state, no screen needed."""

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

COLOURS = "viridis"  # even steps for every kind of colour vision, and in grey
FORBIDDEN = "0.93"  # a weight of exactly zero is a mask's work and stays blank
ACROSS = 4  # maps in a row, at most
SPLIT_NAMES = {"train": "training", "validation": "validation"}


def draw_attention(
    weights: Tensor,
    queries: Sequence[object] | None = None,
    keys: Sequence[object] | None = None,
    *,
    title: str = "",
    names: Sequence[str] | None = None,
) -> Figure:
    """(H, T, S) -> a sheet with one map a head

    Row: who looks. Column: what is looked at; blank where the weight is exactly zero. `queries` and
    `keys` are the tokens; for self-attention `keys` may be left out. `names` are those of the heads,
    where several layers stand on one sheet.
    """
    if weights.dim() != 3 or not weights.numel():
        raise wrong("weights", f"of shape {tuple(weights.shape)}", "(H, T, S), one sequence, not empty")
    heads, rows, columns = weights.shape
    keys = queries if keys is None and rows == columns else keys
    for name, tokens, size in (("queries", queries, rows), ("keys", keys, columns)):
        if tokens is not None and len(tokens) != size:
            raise wrong(name, f"{len(tokens)} tokens", f"{size}, as the weights")
    down = math.ceil(heads / ACROSS)
    across = math.ceil(heads / down)
    inches = (1.5 + across * _inches(columns), 1.3 + down * _inches(rows))
    figure = Figure(figsize=inches, layout="compressed")
    grid = figure.subplots(down, across, squeeze=False).flatten()
    maps = weights.detach().float().cpu().numpy()
    # One scale for all heads: a weak head must not look like a strong one.
    largest = float(maps.max())
    for head, axes in enumerate(grid):
        if head < heads:
            picture = _draw_map(axes, maps[head], queries, keys, largest)
            axes.set_title(names[head] if names else f"head {head}", fontsize=10)
            axes.set_ylabel("query: who looks" if head % across == 0 else "")
            axes.set_xlabel("key: looked at" if head + across >= heads else "")
        else:
            axes.set_axis_off()
    figure.colorbar(picture, ax=list(grid), label="weight")
    if title:
        figure.suptitle(plain(title), fontsize=12)
    return figure


def draw_curves(journal: Sequence[dict[str, Any]], metric: str, *, title: str = "") -> Figure:
    """Loss and `metric` of training and validation against epochs.

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
        figure.suptitle(plain(title), fontsize=12)
    return figure


def _draw_map(
    axes: Axes,
    map_TS: NDArray[np.float32],
    queries: Sequence[object] | None,
    keys: Sequence[object] | None,
    largest: float,
) -> AxesImage:
    colours = matplotlib.colormaps[COLOURS].with_extremes(bad=FORBIDDEN)
    picture = axes.imshow(np.ma.masked_equal(map_TS, 0.0), cmap=colours, vmin=0.0, vmax=largest)
    label_axes(axes, queries, keys)
    return picture


def label_axes(axes: Axes, queries: Sequence[object] | None, keys: Sequence[object] | None) -> None:
    """Tokens down and across; numbers where there are none."""
    for axis, tokens in ((axes.yaxis, queries), (axes.xaxis, keys)):
        if tokens is None:
            axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        else:
            axis.set_ticks(range(len(tokens)), [plain(token) for token in tokens], fontsize=8)
    if keys is not None and max((len(str(key)) for key in keys), default=0) > 2:
        axes.tick_params(axis="x", rotation=90)


def _inches(tokens: int) -> float:
    """Room for readable labels, up to a sheet that can still be opened."""
    return min(max(1.9, 0.27 * tokens), 10.0)


def plain(token: object) -> str:
    """A dollar sign in a token is a dollar sign, not the beginning of a formula."""
    return str(token).replace("$", r"\$")
