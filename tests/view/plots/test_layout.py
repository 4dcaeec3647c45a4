"""Figures of maps are exactly as large as their content: nothing is cut off, and there is no blank strip."""

import itertools
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from support import must_fail

from limelight.nn import causal_mask, padding_mask
from limelight.view import (
    draw_attention,
    draw_confusion,
    draw_image_grid,
    draw_mask,
    draw_patch_attention,
    draw_position_similarity,
)

DPI = 100
LONG = "a title that is much longer than the figure is wide, so that it must be broken into several lines"


def words(count: int) -> list[str]:
    return [f"word{number}" for number in range(count)]


def pixels(*shape: int) -> torch.Tensor:
    return torch.randint(256, shape, dtype=torch.uint8)


FIGURES: dict[str, Callable[[], Figure]] = {
    "mask": lambda: draw_mask(causal_mask(5)),
    "mask with words": lambda: draw_mask(causal_mask(3), ["the", "cat", "sat"], title="causal"),
    "mask of one cell": lambda: draw_mask(causal_mask(1), ["internationalisation"], title=LONG),
    "mask of one row": lambda: draw_mask(padding_mask([3], 7)),
    "mask of one column": lambda: draw_mask(torch.ones(41, 1, dtype=torch.bool)),
    "self-attention": lambda: draw_attention(torch.rand(4, 9, 9), words(9), title="heads"),
    "cross-attention": lambda: draw_attention(torch.rand(8, 3, 13), words(3), words(13), title=LONG),
    "attention of one query": lambda: draw_attention(torch.rand(1, 1, 23), None, words(23)),
    "many heads": lambda: draw_attention(torch.rand(23, 17, 17), words(17), title=LONG),
    "confusion": lambda: draw_confusion(torch.ones(2, 2), ["cat", "an unusually long name"], title=LONG),
    "examples": lambda: draw_image_grid(pixels(11, 3, 4, 6), ["true cat,\npredicted dog"] * 11, [True] * 11),
    "patches": lambda: draw_patch_attention(pixels(1, 8, 8), torch.rand(2, 3, 2, 2), torch.rand(2, 2)),
    "positions": lambda: draw_position_similarity(torch.randn(6, 5), 2, 3, title="positions"),
}


def check_margins(figure: Figure) -> None:
    """On each side there is a margin without ink, and it is small."""
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=DPI)
    stream.seek(0)
    ink_YX = np.abs(imread(stream)[..., :3] - 1.0).sum(-1) > 0.1
    for axis in (0, 1):
        used = np.flatnonzero(ink_YX.any(axis))
        for margin in (used[0], ink_YX.shape[1 - axis] - 1 - used[-1]):
            assert 2 <= margin <= 0.25 * DPI


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_cut_off_and_there_is_no_blank_strip(name: str) -> None:
    check_margins(FIGURES[name]())


def test_the_check_finds_blank_strips_and_missing_margins() -> None:
    for change in (0.5, -0.3):
        figure = draw_mask(causal_mask(5))
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + change)
        for axes in figure.axes:
            x, y, share, tall = axes.get_position().bounds
            scale = height / (height + change)
            axes.set_position((x, (y * height + change) / (height + change), share, tall * scale))
        must_fail(check_margins, figure)


def test_the_title_is_above_the_maps() -> None:
    figure = draw_attention(torch.rand(2, 3, 3), title=LONG)
    title = figure.texts[0].get_window_extent()
    assert "\n" in figure.get_suptitle()
    for axes in figure.axes:
        around = axes.get_tightbbox()
        assert around is not None
        assert around.y1 < title.y0


@pytest.mark.parametrize("prefix", ["word", "internationalisation"])
@pytest.mark.parametrize(("heads", "rows", "columns"), [(8, 16, 16), (24, 16, 16), (24, 41, 41), (7, 3, 59)])
def test_a_sheet_of_maps_is_at_most_2400_pixels_wide(
    heads: int, rows: int, columns: int, prefix: str
) -> None:
    queries, keys = ([f"{prefix}{number}" for number in range(count)] for count in (rows, columns))
    width, height = 150 * draw_attention(torch.rand(heads, rows, columns), queries, keys).get_size_inches()
    assert width <= 2400
    assert height <= (3700 if prefix == "word" else 4500)


def test_labels_do_not_overlap() -> None:
    """Of tokens in small cells, only some have labels; long tokens are shortened."""
    for tokens in (words(9), words(97), words(499), ["a" * 99] * 5):
        axes = draw_attention(torch.rand(1, len(tokens), len(tokens)), tokens).axes[0]
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
        assert all(above.y0 >= below.y1 for above, below in itertools.pairwise(boxes))
        assert max(box.width for box in boxes) < 200
        assert len(boxes) > 4
