"""Pictures of what attention is made of: masks and positions; and any picture on a dark ground."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from limelight.errors import wrong
from limelight.view.plots.attention import FORBIDDEN, label_axes, plain

ALLOWED = "#2a6f97"
WAVES = "PuOr"  # orange and purple, which every kind of colour vision tells apart; white is zero
NIGHT, CHALK = "#15191e", "#d7dde3"


def draw_mask(
    mask: Tensor,
    queries: Sequence[object] | None = None,
    keys: Sequence[object] | None = None,
    *,
    title: str = "",
) -> Figure:
    """(T, S) | (1, T, S) -> which position may look at which

    `queries` and `keys` are the tokens, as for `draw_attention`. A padding mask, (1, 1, S), has one row.
    """
    allowed = mask.squeeze(0) if mask.dim() == 3 and len(mask) == 1 else mask
    if allowed.dim() != 2 or allowed.dtype.is_floating_point or not allowed.numel():
        what = f"of shape {tuple(mask.shape)}, {mask.dtype}"
        raise wrong("mask", what, "(T, S) of booleans, True where a query may look, not empty")
    rows, columns = allowed.shape
    figure = Figure(figsize=(2.4 + 0.3 * min(columns, 40), 1.2 + 0.3 * min(rows, 40)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(allowed.cpu().bool().numpy(), cmap=ListedColormap([FORBIDDEN, ALLOWED]), vmin=0, vmax=1)
    label_axes(axes, queries, keys if keys is not None or rows != columns else queries)
    axes.set_ylabel("query: who looks")
    axes.set_xlabel("key: looked at")
    kinds = [Patch(color=ALLOWED, label="may look"), Patch(color=FORBIDDEN, label="may not")]
    figure.legend(handles=kinds, loc="outside right upper", frameon=False)
    if title:
        figure.suptitle(plain(title), fontsize=12)
    return figure


def draw_positions(vectors: Tensor, *, title: str = "") -> Figure:
    """(T, D) -> the vector of each position, and how alike any two of them are"""
    if vectors.dim() != 2 or not vectors.numel():
        raise wrong("vectors", f"of shape {tuple(vectors.shape)}", "(T, D), one vector a position, not empty")
    table = vectors.detach().float().cpu().numpy()
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    alike = (table / np.maximum(lengths, 1e-12)) @ (table / np.maximum(lengths, 1e-12)).T
    figure = Figure(figsize=(10, 4), layout="constrained")
    waves, likeness = figure.subplots(1, 2, width_ratios=(3, 2))
    most = float(np.abs(table).max())
    picture = waves.imshow(table, cmap=WAVES, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    waves.set(xlabel="component", ylabel="position", title="vectors")
    figure.colorbar(picture, ax=waves)
    picture = likeness.imshow(alike, cmap="viridis", interpolation="nearest")
    likeness.set(xlabel="position", ylabel="position", title="cosine of any two")
    figure.colorbar(picture, ax=likeness)
    if title:
        figure.suptitle(plain(title), fontsize=12)
    return figure


def darken(figure: Figure) -> Figure:
    """The same picture, light on dark, for slides and screens at night."""
    figure.set_facecolor(NIGHT)
    for text in figure.texts:
        text.set_color(CHALK)
    for axes in figure.axes:
        axes.set_facecolor(NIGHT)
        axes.tick_params(colors=CHALK, which="both")
        for part in (axes.title, axes.xaxis.label, axes.yaxis.label):
            part.set_color(CHALK)
        for spine in axes.spines.values():
            spine.set_edgecolor(CHALK)
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        if legend is not None:
            legend.get_frame().set_facecolor(NIGHT)
            for text in legend.get_texts():
                text.set_color(CHALK)
    return figure
