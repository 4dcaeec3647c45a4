"""Figures of image models: attention over patches, example images, confusion matrix, positions.

Axes y and x are the rows and columns of the patch grid; Y and X those of the image, in pixels.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from limelight.errors import wrong
from limelight.view.plots.attention import COLOUR_MAP, READABLE, escape_dollars, label_axes
from limelight.view.plots.layout import add_axes, arrange

CORRECT_COLOUR, WRONG_COLOUR = "tab:blue", "tab:orange"  # distinguishable for colour-blind readers
IMAGES_PER_ROW = 8
MAX_MAPS_PER_SIDE = 16  # maps along one side of the grid of positions
IMAGE, POSITION = 1.15, 0.62  # width of an image, and of a map of positions, in inches


def rollout(layers: Sequence[Tensor]) -> Tensor:
    """(H, T, T) for each layer -> (T, T)

    Attention rollout: the share of each input token in each output, if attention and residual connections
    were the only operations. It is the product of (mean over heads + I) / 2 over the layers, the first layer
    rightmost (Abnar and Zuidema 2020, section 3).
    """
    if not layers:
        raise wrong("layers", "empty", "one tensor (H, T, T) per layer")
    flow_TT = torch.eye(layers[0].shape[-1])
    for weights_HTT in layers:
        mean_TT = weights_HTT.detach().float().cpu().mean(0)
        flow_TT = (mean_TT + torch.eye(len(mean_TT))) / 2 @ flow_TT
    return flow_TT


def draw_patch_attention(image: Tensor, layers: Tensor, rollout_map: Tensor, *, title: str = "") -> Figure:
    """(C, Y, X), (layers, H, y, x), (y, x) -> the image, and each attention map drawn over it

    One row per layer, one column per head. Each map has its own colour scale: its brightest patch has the
    largest weight.
    """
    if layers.dim() != 4 or rollout_map.shape != layers.shape[2:]:
        shapes = f"{tuple(layers.shape)} with a rollout of {tuple(rollout_map.shape)}"
        raise wrong("layers", f"of shape {shapes}", "(layers, H, y, x) with (y, x)")
    depth, heads = layers.shape[:2]
    figure = Figure()
    grid = [[add_axes(figure) for _ in range(count)] for count in (2, *[heads] * depth)]
    for axes in (axes for row in grid for axes in row):
        axes.set_axis_off()
    pixels = _pixels(image)
    _draw_image(grid[0][0], pixels, "image")
    _draw_overlay(grid[0][1], pixels, rollout_map, "attention rollout")
    for layer, maps_Hyx in enumerate(layers):
        for head, map_yx in enumerate(maps_Hyx):
            _draw_overlay(grid[layer + 1][head], pixels, map_yx, f"layer {layer}, head {head}")
    arrange(figure, grid, _image_size(pixels), title=escape_dollars(title))
    return figure


def draw_image_grid(
    images: Tensor, captions: Sequence[str], correct: Sequence[bool], *, title: str = ""
) -> Figure:
    """(B, C, Y, X) -> the images with captions; the colour of a frame shows if the prediction is correct"""
    figure = Figure()
    drawn = [add_axes(figure) for _ in images]
    for axes, image, caption, is_correct in zip(drawn, images, captions, correct, strict=True):
        _draw_image(axes, _pixels(image), caption)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(CORRECT_COLOUR if is_correct else WRONG_COLOUR)
            spine.set_linewidth(2.5)
    grid = [drawn[start : start + IMAGES_PER_ROW] for start in range(0, len(drawn), IMAGES_PER_ROW)]
    arrange(figure, grid, _image_size(_pixels(images[0])), title=escape_dollars(title))
    return figure


def draw_confusion(counts: Tensor, names: Sequence[str], *, title: str = "") -> Figure:
    """(L, L) -> a confusion matrix: rows are true classes, columns predicted classes"""
    size = len(names)
    figure = Figure()
    axes, bar = add_axes(figure), add_axes(figure)
    shares_LL = counts.float() / counts.sum(1, keepdim=True).clamp(min=1)
    picture = axes.imshow(shares_LL.numpy(), cmap=COLOUR_MAP, vmin=0.0, vmax=1.0)
    side = min(max(3.0, 0.4 * size), 13.0)
    label_axes(axes, names, names, math.ceil(READABLE * size / side))
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if size <= 20:
        for row, line in enumerate(counts.tolist()):
            for column, count in enumerate(line):
                colour = "black" if shares_LL[row, column] > 0.6 else "white"
                axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=7)
    figure.colorbar(picture, cax=bar, label="share of the true class")
    arrange(figure, [[axes]], (side, side), bar=bar, title=escape_dollars(title))
    return figure


def draw_position_similarity(vectors: Tensor, rows: int, columns: int, *, title: str = "") -> Figure:
    """(P, D) -> one small map per position: the cosine similarity of its vector to those of all positions

    The maps are arranged like the positions. For a fine grid, only every second position, or fewer, has one.
    """
    unit_PD = torch.nn.functional.normalize(vectors.detach().float().cpu(), dim=1)
    similarity_yxyx = (unit_PD @ unit_PD.T).unflatten(1, (rows, columns)).unflatten(0, (rows, columns))
    step = -(-max(rows, columns) // MAX_MAPS_PER_SIDE)
    maps_yxyx = similarity_yxyx[::step, ::step]
    lowest, highest = float(maps_yxyx.min()), float(maps_yxyx.max())  # vectors may be similar everywhere
    figure = Figure()
    grid = [[add_axes(figure) for _ in row] for row in maps_yxyx]
    for line, maps_xyx in zip(grid, maps_yxyx.numpy(), strict=True):
        for axes, map_yx in zip(line, maps_xyx, strict=True):
            picture = axes.imshow(map_yx, cmap=COLOUR_MAP, vmin=lowest, vmax=highest)
            axes.set_axis_off()
    bar = add_axes(figure)
    figure.colorbar(picture, cax=bar, label="cosine similarity")
    arrange(figure, grid, (POSITION, POSITION * rows / columns), bar=bar, title=escape_dollars(title))
    return figure


def _draw_overlay(axes: Axes, pixels: NDArray[np.uint8], map_yx: Tensor, caption: str) -> None:
    _draw_image(axes, pixels, caption)
    rows, columns = pixels.shape[:2]
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    axes.imshow(map_yx.detach().float().cpu().numpy(), cmap=COLOUR_MAP, alpha=0.75, extent=extent, vmin=0.0)


def _draw_image(axes: Axes, pixels: NDArray[np.uint8], caption: str) -> None:
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255)
    axes.set_title(escape_dollars(caption), fontsize=7)


def _image_size(pixels: NDArray[np.uint8]) -> tuple[float, float]:
    """The width and height of an image in inches: its longer side is always the same."""
    rows, columns = pixels.shape[:2]
    return IMAGE * columns / max(rows, columns), IMAGE * rows / max(rows, columns)


def _pixels(image: Tensor) -> NDArray[np.uint8]:
    """(C, Y, X) -> (Y, X, C), or (Y, X) for one channel"""
    array: NDArray[np.uint8] = image.cpu().permute(1, 2, 0).numpy()
    return array[..., 0] if array.shape[-1] == 1 else array
