"""Figures of an image classifier: examples, positions."""

from collections import Counter
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from limelight.data.images.image_data import Images
from limelight.models.vit import ViT
from limelight.view.plots.attention import shorten
from limelight.view.plots.images import draw_image_grid, draw_position_similarity

SHOWN = 16  # correctly classified images, and as many wrongly classified ones
LONGEST_NAME = 16  # characters of a class


def draw_figures(
    model: ViT, images: Images, predicted: Tensor, names: Sequence[str], title: str
) -> dict[str, Figure]:
    """The figures of images and their predicted classes (N), by file name."""
    right_N = predicted == images.labels
    shown = torch.cat([_choose_examples(images.labels, right_N == good) for good in (True, False)])
    pairs = zip(images.labels[shown].tolist(), predicted[shown].tolist(), strict=True)
    captions = [_caption(names[truth], names[answer]) for truth, answer in pairs]
    positions = model.positions
    return {
        "examples": draw_image_grid(
            images.pixels[shown],
            captions,
            right_N[shown].tolist(),
            title=f"{title}: correct and wrong predictions",
        ),
        "positions": draw_position_similarity(
            positions.vectors(*positions.grid), *positions.grid, title=f"{title}: similarity of positions"
        ),
    }


def _choose_examples(labels: Tensor, allowed: Tensor) -> Tensor:
    """(N), (N) -> the numbers of a few allowed images, class by class: if possible, equally many of each"""
    ranked = list[tuple[int, int, int]]()  # the number of an image within its class, its class, its number
    seen = Counter[int]()
    for number in allowed.nonzero().flatten().tolist():
        label = int(labels[number])
        ranked.append((seen[label], label, number))
        seen[label] += 1
    chosen = sorted(sorted(ranked)[:SHOWN], key=lambda one: one[1:])
    return torch.tensor([number for _, _, number in chosen], dtype=torch.long)


def _caption(truth: str, predicted: str) -> str:
    truth, predicted = shorten(truth, LONGEST_NAME), shorten(predicted, LONGEST_NAME)
    return truth if truth == predicted else f"true {truth},\npredicted {predicted}"
