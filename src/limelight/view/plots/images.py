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
from limelight.view.plots.attention import COLOUR_MAP, escape_dollars

CORRECT_COLOUR, WRONG_COLOUR = "tab:blue", "tab:orange"  # distinguishable for colour-blind readers
IMAGES_PER_ROW = 8
MAX_MAPS_PER_SIDE = 16  # maps along one side of the grid of positions


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
    grid_columns = max(2, heads)
    figure = Figure(figsize=(1.3 * grid_columns, 0.5 + 1.5 * (depth + 1)), layout="constrained")
    grid = figure.subplots(depth + 1, grid_columns, squeeze=False)
    for axes in grid.flatten():
        axes.set_axis_off()
    pixels = _pixels(image)
    _draw_image(grid[0][0], pixels, "image")
    _draw_overlay(grid[0][1], pixels, rollout_map, "attention rollout")
    for layer, maps_Hyx in enumerate(layers):
        for head, map_yx in enumerate(maps_Hyx):
            _draw_overlay(grid[layer + 1][head], pixels, map_yx, f"layer {layer}, head {head}")
    if title:
        figure.suptitle(escape_dollars(title), fontsize=11)
    return figure


def draw_image_grid(
    images: Tensor, captions: Sequence[str], correct: Sequence[bool], *, title: str = ""
) -> Figure:
    """(B, C, Y, X) -> the images with captions; the colour of a frame shows if the prediction is correct"""
    grid_columns = min(IMAGES_PER_ROW, len(images))
    grid_rows = math.ceil(len(images) / grid_columns)
    figure = Figure(figsize=(1.3 * grid_columns, 0.5 + 1.75 * grid_rows), layout="constrained")
    grid = figure.subplots(grid_rows, grid_columns, squeeze=False).flatten()
    for axes in grid[len(images) :]:
        axes.set_axis_off()
    for axes, image, caption, is_correct in zip(grid, images, captions, correct, strict=False):
        _draw_image(axes, _pixels(image), caption)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(CORRECT_COLOUR if is_correct else WRONG_COLOUR)
            spine.set_linewidth(2.5)
    if title:
        figure.suptitle(escape_dollars(title), fontsize=11)
    return figure


def draw_confusion(counts: Tensor, names: Sequence[str], *, title: str = "") -> Figure:
    """(L, L) -> a confusion matrix: rows are true classes, columns predicted classes"""
    size = len(names)
    inches = min(max(4.0, 0.5 * size + 2), 16.0)
    figure = Figure(figsize=(inches, inches * 0.9), layout="constrained")
    axes = figure.subplots()
    shares_LL = counts.float() / counts.sum(1, keepdim=True).clamp(min=1)
    picture = axes.imshow(shares_LL.numpy(), cmap=COLOUR_MAP, vmin=0.0, vmax=1.0)
    axes.set_xticks(range(size), [escape_dollars(name) for name in names], rotation=90, fontsize=8)
    axes.set_yticks(range(size), [escape_dollars(name) for name in names], fontsize=8)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if size <= 20:
        for row, line in enumerate(counts.tolist()):
            for column, count in enumerate(line):
                colour = "black" if shares_LL[row, column] > 0.6 else "white"
                axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=7)
    figure.colorbar(picture, ax=axes, label="share of the images of the true class")
    axes.set_title(title, fontsize=11)
    return figure


def draw_position_similarity(vectors: Tensor, rows: int, columns: int, *, title: str = "") -> Figure:
    """(P, D) -> one small map per position: the cosine similarity of its vector to those of all positions

    For a fine grid, only every second position (or fewer) has a map.
    """
    unit_PD = torch.nn.functional.normalize(vectors.detach().float().cpu(), dim=1)
    similarity_yxyx = (unit_PD @ unit_PD.T).unflatten(1, (rows, columns)).unflatten(0, (rows, columns))
    step = -(-max(rows, columns) // MAX_MAPS_PER_SIDE)
    maps_yxyx = similarity_yxyx[::step, ::step]
    grid_rows, grid_columns = maps_yxyx.shape[:2]
    figure = Figure(figsize=(1.2 + 0.75 * grid_columns, 0.8 + 0.75 * grid_rows), layout="constrained")
    grid = figure.subplots(grid_rows, grid_columns, squeeze=False).flatten()
    for axes, map_yx in zip(grid, maps_yxyx.flatten(0, 1).numpy(), strict=True):
        picture = axes.imshow(map_yx, cmap=COLOUR_MAP, vmin=-1.0, vmax=1.0)
        axes.set_axis_off()
    figure.colorbar(picture, ax=list(grid), label="cosine similarity")
    figure.suptitle(escape_dollars(title), fontsize=11)
    return figure


def _draw_overlay(axes: Axes, pixels: NDArray[np.uint8], map_yx: Tensor, caption: str) -> None:
    _draw_image(axes, pixels, caption)
    rows, columns = pixels.shape[:2]
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    axes.imshow(map_yx.detach().float().cpu().numpy(), cmap=COLOUR_MAP, alpha=0.75, extent=extent, vmin=0.0)


def _draw_image(axes: Axes, pixels: NDArray[np.uint8], caption: str) -> None:
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255)
    axes.set_title(escape_dollars(caption), fontsize=7)


def _pixels(image: Tensor) -> NDArray[np.uint8]:
    """(C, Y, X) -> (Y, X, C), or (Y, X) for one channel"""
    array: NDArray[np.uint8] = image.cpu().permute(1, 2, 0).numpy()
    return array[..., 0] if array.shape[-1] == 1 else array
