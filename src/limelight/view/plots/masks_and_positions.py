"""Figures of masks and position vectors; dark versions of all figures."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from limelight.errors import wrong
from limelight.view.plots.attention import (
    CELL,
    LARGEST_MAP,
    MASKED_COLOUR,
    READABLE,
    escape_dollars,
    label_axes,
)
from limelight.view.plots.layout import add_axes, arrange

ALLOWED_COLOUR = "#2a6f97"
SIGNED_COLOUR_MAP = "PuOr"  # orange, white at zero, purple: distinguishable for colour-blind readers
DARK_BACKGROUND, LIGHT_TEXT = "#15191e", "#d7dde3"


def draw_mask(
    mask: Tensor,
    queries: Sequence[object] | None = None,
    keys: Sequence[object] | None = None,
    *,
    title: str = "",
) -> Figure:
    """(T, S) | (1, T, S) -> a figure of which query may attend to which key

    `queries` and `keys` are the tokens, as for `draw_attention`. A padding mask (1, 1, S) has one row.
    """
    allowed_TS = mask.squeeze(0) if mask.dim() == 3 and len(mask) == 1 else mask
    if allowed_TS.dim() != 2 or allowed_TS.dtype.is_floating_point or not allowed_TS.numel():
        found = f"of shape {tuple(mask.shape)}, {mask.dtype}"
        raise wrong("mask", found, "(T, S) of booleans, True where a query may attend, not empty")
    rows, columns = allowed_TS.shape
    figure = Figure()
    axes = add_axes(figure)
    colours = ListedColormap([MASKED_COLOUR, ALLOWED_COLOUR])
    axes.imshow(allowed_TS.cpu().bool().numpy(), cmap=colours, vmin=0, vmax=1)
    cell = min(CELL, LARGEST_MAP / max(rows, columns))
    keys = keys if keys is not None or rows != columns else queries
    label_axes(axes, queries, keys, math.ceil(READABLE / cell))
    axes.set_ylabel("query")
    axes.set_xlabel("key")
    patches = [
        Patch(color=ALLOWED_COLOUR, label="may attend"),
        Patch(color=MASKED_COLOUR, label="may not attend"),
    ]
    axes.legend(
        handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0, frameon=False
    )
    arrange(figure, [[axes]], (columns * cell, rows * cell), title=escape_dollars(title))
    return figure


def draw_positions(vectors: Tensor, *, title: str = "") -> Figure:
    """(T, D) -> the position vectors, and the cosine similarity of each pair of positions"""
    if vectors.dim() != 2 or not vectors.numel():
        allowed = "(T, D), one vector per position, not empty"
        raise wrong("vectors", f"of shape {tuple(vectors.shape)}", allowed)
    table_TD = vectors.detach().float().cpu().numpy()
    norms = np.linalg.norm(table_TD, axis=1, keepdims=True)
    unit_TD = table_TD / np.maximum(norms, 1e-12)
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    limit = float(np.abs(table_TD).max())
    picture = left.imshow(
        table_TD, cmap=SIGNED_COLOUR_MAP, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    left.set(xlabel="dimension", ylabel="position", title="position vectors")
    figure.colorbar(picture, ax=left)
    picture = right.imshow(unit_TD @ unit_TD.T, cmap="viridis", interpolation="nearest")
    right.set(xlabel="position", ylabel="position", title="cosine similarity")
    figure.colorbar(picture, ax=right)
    if title:
        figure.suptitle(escape_dollars(title), fontsize=12)
    return figure


def darken(figure: Figure) -> Figure:
    """Change a figure to light text on a dark background, and return it."""
    figure.set_facecolor(DARK_BACKGROUND)
    for text in figure.texts:
        text.set_color(LIGHT_TEXT)
    for axes in figure.axes:
        axes.set_facecolor(DARK_BACKGROUND)
        axes.tick_params(colors=LIGHT_TEXT, which="both")
        for part in (axes.title, axes.xaxis.label, axes.yaxis.label):
            part.set_color(LIGHT_TEXT)
        for spine in axes.spines.values():
            if spine.get_edgecolor() == to_rgba("black"):  # the frame of an image has a meaning
                spine.set_edgecolor(LIGHT_TEXT)
        for text in axes.texts:
            if not axes.images:  # numbers in the cells of an image have a colour that suits the cell
                text.set_color(LIGHT_TEXT)
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        if legend is not None:
            legend.get_frame().set_facecolor(DARK_BACKGROUND)
            for text in legend.get_texts():
                text.set_color(LIGHT_TEXT)
    return figure
