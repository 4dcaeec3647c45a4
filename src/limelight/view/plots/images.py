"""Pictures of what an image model looks at and of what it takes for what."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from limelight.errors import wrong
from limelight.view.plots.attention import COLOURS, plain

RIGHT, WRONG = "tab:blue", "tab:orange"  # told apart by every kind of colour vision
ACROSS = 8  # maps or images in a row
MOST_MAPS = 16  # positions along a side of the grid that have a map each


def rollout(layers: Sequence[Tensor]) -> Tensor:
    """(H, T, T) each -> (T, T)

    How much of each item is in each output, if attention and residuals only mixed: the product of
    (mean of the heads + I) / 2 over the layers, the first one rightmost (Abnar and Zuidema 2020, section 3).
    """
    if not layers:
        raise wrong("layers", "empty", "one tensor (H, T, T) a layer")
    flow_TT = torch.eye(layers[0].shape[-1])
    for weights_HTT in layers:
        mean_TT = weights_HTT.detach().float().cpu().mean(0)
        flow_TT = (mean_TT + torch.eye(len(mean_TT))) / 2 @ flow_TT
    return flow_TT


def draw_looks(image: Tensor, layers: Tensor, whole: Tensor, *, title: str = "") -> Figure:
    """(C, Y, X), (layers, H, y, x), (y, x) -> the image, and each map of its patches over it

    A row a layer, a column a head. Each map has a scale of its own: its brightest patch is looked at most.
    """
    if layers.dim() != 4 or whole.shape != layers.shape[2:]:
        shapes = f"{tuple(layers.shape)} with a whole of {tuple(whole.shape)}"
        raise wrong("layers", f"of shape {shapes}", "(layers, H, y, x) with (y, x)")
    depth, heads = layers.shape[:2]
    across = max(2, heads)
    figure = Figure(figsize=(1.3 * across, 0.5 + 1.5 * (depth + 1)), layout="constrained")
    grid = figure.subplots(depth + 1, across, squeeze=False)
    for axes in grid.flatten():
        axes.set_axis_off()
    pixels = _pixels(image)
    _draw_image(grid[0][0], pixels, "image")
    _draw_over(grid[0][1], pixels, whole, "rollout of all")
    for layer, row in enumerate(layers):
        for head, map_yx in enumerate(row):
            _draw_over(grid[layer + 1][head], pixels, map_yx, f"layer {layer}, head {head}")
    if title:
        figure.suptitle(plain(title), fontsize=11)
    return figure


def draw_sheet(images: Tensor, captions: Sequence[str], right: Sequence[bool], *, title: str = "") -> Figure:
    """(n, C, Y, X) -> the images with a caption each, framed by whether the model was right"""
    across = min(ACROSS, len(images))
    down = math.ceil(len(images) / across)
    figure = Figure(figsize=(1.3 * across, 0.5 + 1.75 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).flatten()
    for axes in grid[len(images) :]:
        axes.set_axis_off()
    for axes, image, caption, good in zip(grid, images, captions, right, strict=False):
        _draw_image(axes, _pixels(image), caption)
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_color(RIGHT if good else WRONG)
            side.set_linewidth(2.5)
    if title:
        figure.suptitle(plain(title), fontsize=11)
    return figure


def draw_confusion(counts: Tensor, names: Sequence[str], *, title: str = "") -> Figure:
    """(L, L) -> rows: what it is; columns: what the model said"""
    size = len(names)
    inches = min(max(4.0, 0.5 * size + 2), 16.0)
    figure = Figure(figsize=(inches, inches * 0.9), layout="constrained")
    axes = figure.subplots()
    shares = counts.float() / counts.sum(1, keepdim=True).clamp(min=1)
    picture = axes.imshow(shares.numpy(), cmap=COLOURS, vmin=0.0, vmax=1.0)
    axes.set_xticks(range(size), [plain(name) for name in names], rotation=90, fontsize=8)
    axes.set_yticks(range(size), [plain(name) for name in names], fontsize=8)
    axes.set_xlabel("what the model said")
    axes.set_ylabel("what it is")
    if size <= 20:
        for row, line in enumerate(counts.tolist()):
            for column, count in enumerate(line):
                colour = "black" if shares[row, column] > 0.6 else "white"
                axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=7)
    figure.colorbar(picture, ax=axes, label="share of the row")
    axes.set_title(title, fontsize=11)
    return figure


def draw_similarities(vectors: Tensor, rows: int, columns: int, *, title: str = "") -> Figure:
    """(P, D) -> for each position a small map: how alike its vector is to those of all others, by cosine

    Of a fine grid, every second position or fewer have a map.
    """
    unit_PD = torch.nn.functional.normalize(vectors.detach().float().cpu(), dim=1)
    alike = (unit_PD @ unit_PD.T).unflatten(1, (rows, columns)).unflatten(0, (rows, columns))
    every = -(-max(rows, columns) // MOST_MAPS)
    maps = alike[::every, ::every]
    across, down = maps.shape[1], maps.shape[0]
    figure = Figure(figsize=(1.2 + 0.75 * across, 0.8 + 0.75 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).flatten()
    for axes, map_yx in zip(grid, maps.flatten(0, 1).numpy(), strict=True):
        picture = axes.imshow(map_yx, cmap=COLOURS, vmin=-1.0, vmax=1.0)
        axes.set_axis_off()
    figure.colorbar(picture, ax=list(grid), label="cosine")
    figure.suptitle(plain(title), fontsize=11)
    return figure


def _draw_over(axes: Axes, pixels: NDArray[np.uint8], map_yx: Tensor, caption: str) -> None:
    _draw_image(axes, pixels, caption)
    rows, columns = pixels.shape[:2]
    box = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    axes.imshow(map_yx.detach().float().cpu().numpy(), cmap=COLOURS, alpha=0.75, extent=box, vmin=0.0)


def _draw_image(axes: Axes, pixels: NDArray[np.uint8], caption: str) -> None:
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255)
    axes.set_title(plain(caption), fontsize=7)


def _pixels(image: Tensor) -> NDArray[np.uint8]:
    """(C, Y, X) -> (Y, X, C), or (Y, X) where there is no colour"""
    array: NDArray[np.uint8] = image.cpu().permute(1, 2, 0).numpy()
    return array[..., 0] if array.shape[-1] == 1 else array
