"""Figures of attention maps."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from limelight.view import draw_attention


def maps(figure: Figure) -> list[Any]:
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


def test_each_head_has_its_own_map_and_all_maps_share_one_colour_scale() -> None:
    weights = torch.rand(7, 3, 5).softmax(-1)
    drawn = maps(draw_attention(weights))
    assert [axes.get_title() for axes in drawn] == [f"head {h}" for h in range(7)]
    for axes, head in zip(drawn, weights, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), head.numpy())
        assert axes.images[0].get_clim() == (0.0, float(weights.max()))


def test_weights_of_exactly_zero_are_masked_and_small_weights_are_not() -> None:
    (axes,) = maps(draw_attention(torch.tensor([[[1.0, 0.0], [1e-6, 1 - 1e-6]]])))
    assert axes.images[0].get_array().mask.tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(("heads", "cells"), [(1, 1), (3, 3), (5, 6), (6, 6), (8, 8), (9, 9)])
def test_few_cells_of_the_grid_stay_empty(heads: int, cells: int) -> None:
    places = [axes.get_position() for axes in maps(draw_attention(torch.rand(heads, 2, 2)))]
    rows, columns = {round(one.y0, 3) for one in places}, {round(one.x0, 3) for one in places}
    assert len(places) == heads
    assert len(rows) * len(columns) == cells


def test_any_title_is_accepted_and_a_long_sequence_gives_a_figure_of_limited_size() -> None:
    figure = draw_attention(torch.rand(2, 1500, 1500), title="from $5 to $x^")
    figure.canvas.draw()
    assert max(figure.get_size_inches()) < 25


def test_tokens_may_be_numbers_and_weights_may_require_gradients() -> None:
    weights = torch.rand(1, 2, 2, requires_grad=True)
    (axes,) = maps(draw_attention(weights, [7, 8]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["7", "8"]


def test_tokens_label_both_axes() -> None:
    figure = draw_attention(torch.rand(1, 2, 3), ["je", "suis"], ["I", "am", "$5"], title="cross")
    (axes,) = maps(figure)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["je", "suis"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["I", "am", r"\$5"]
    figure.savefig(BytesIO())  # "$" must not start a formula


def test_for_self_attention_the_queries_also_label_the_keys() -> None:
    (axes,) = maps(draw_attention(torch.rand(1, 2, 2), ["a", "b"]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


def test_a_figure_is_saved_without_a_display(tmp_path: Path) -> None:
    target = tmp_path / "maps.png"
    draw_attention(torch.rand(2, 5, 5, dtype=torch.bfloat16)).savefig(target)
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("shape", "queries", "keys", "message"),
    [
        ((0, 3, 5), None, None, r"weights is of shape \(0, 3, 5\); allowed: .* not empty"),
        ((1, 2, 3, 5), None, None, r"weights is of shape \(1, 2, 3, 5\); allowed: \(H, T, S\)"),
        ((2, 3, 5), ["a"], None, "the number of queries is 1; allowed: 3, as many as in the weights"),
        ((2, 3, 5), None, ["a"], "the number of keys is 1; allowed: 5"),
    ],
)
def test_invalid_arguments_raise_an_error_that_names_them(
    shape: tuple[int, ...], queries: list[str] | None, keys: list[str] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draw_attention(torch.rand(shape), queries, keys)


def test_another_number_of_names_raises_an_error() -> None:
    with pytest.raises(ValueError, match="the number of names is 1; allowed: 2, as many as heads"):
        draw_attention(torch.rand(2, 3, 5), names=["layer 0"])
