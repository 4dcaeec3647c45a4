from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from limelight.view import draw_attention


def maps(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


def test_each_head_has_a_map_of_its_own_weights_on_one_scale() -> None:
    weights = torch.rand(7, 3, 5).softmax(-1)
    sheet = maps(draw_attention(weights))
    assert [axes.get_title() for axes in sheet] == [f"head {h}" for h in range(7)]
    for axes, head in zip(sheet, weights, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), head.numpy())
        assert axes.images[0].get_clim() == (0.0, float(weights.max()))


def test_what_a_mask_forbids_is_blank_and_what_is_nearly_zero_is_not() -> None:
    (axes,) = maps(draw_attention(torch.tensor([[[1.0, 0.0], [1e-6, 1 - 1e-6]]])))
    assert axes.images[0].get_array().mask.tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(("heads", "places"), [(1, 1), (3, 3), (5, 6), (6, 6), (8, 8), (9, 9)])
def test_few_places_of_a_sheet_stay_empty(heads: int, places: int) -> None:
    figure = draw_attention(torch.rand(heads, 2, 2))
    assert len(figure.axes) == places + 1  # and the scale


def test_a_title_may_hold_anything_and_a_long_text_stays_a_picture() -> None:
    figure = draw_attention(torch.rand(2, 1500, 1500), title="from $5 to $x^")
    figure.canvas.draw()
    assert max(figure.get_size_inches()) < 25


def test_tokens_may_be_numbers_and_weights_may_need_gradients() -> None:
    weights = torch.rand(1, 2, 2, requires_grad=True)
    (axes,) = maps(draw_attention(weights, [7, 8]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["7", "8"]


def test_tokens_stand_on_both_axes() -> None:
    figure = draw_attention(torch.rand(1, 2, 3), ["je", "suis"], ["I", "am", "$5"], title="cross")
    (axes,) = maps(figure)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["je", "suis"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["I", "am", r"\$5"]
    figure.savefig(BytesIO())  # "$" must not open a formula


def test_self_attention_needs_its_tokens_once() -> None:
    (axes,) = maps(draw_attention(torch.rand(1, 2, 2), ["a", "b"]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


def test_a_picture_is_written_without_a_screen(tmp_path: Path) -> None:
    target = tmp_path / "maps.png"
    draw_attention(torch.rand(2, 5, 5, dtype=torch.bfloat16)).savefig(target)
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("shape", "queries", "keys", "message"),
    [
        ((0, 3, 5), None, None, r"weights is of shape \(0, 3, 5\); allowed: .* not empty"),
        ((1, 2, 3, 5), None, None, r"weights is of shape \(1, 2, 3, 5\); allowed: \(H, T, S\)"),
        ((2, 3, 5), ["a"], None, "queries is 1 tokens; allowed: 3"),
        ((2, 3, 5), None, ["a"], "keys is 1 tokens; allowed: 5"),
    ],
)
def test_wrong_inputs_are_refused_by_name(shape, queries, keys, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_attention(torch.rand(shape), queries, keys)
