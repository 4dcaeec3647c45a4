"""Figures of attention maps."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from limelight.view import draw_attention, draw_curves


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


def journal(count: int) -> list[dict[str, Any]]:
    return [
        {
            "epoch": e,
            "train": {"loss": 2 / e, "accuracy": 0.25},
            "validation": {"loss": 3 / e, "accuracy": 0.5},
        }
        for e in range(1, count + 1)
    ]


def test_curves_start_at_epoch_zero_and_mark_each_of_a_few_evaluations() -> None:
    loss, accuracy = draw_curves(journal(5), "accuracy").axes
    train, validation = loss.lines
    assert list(np.asarray(train.get_ydata())) == [2 / e for e in range(1, 6)]
    assert list(np.asarray(validation.get_ydata())) == [3 / e for e in range(1, 6)]
    assert (train.get_marker(), loss.get_xlim()[0]) == (".", 0)
    assert accuracy.get_title() == "accuracy"
    assert not draw_curves(journal(50), "accuracy").axes[0].lines[0].get_marker()


def test_one_evaluation_is_drawn_as_bars_with_their_values() -> None:
    figure = draw_curves(journal(1), "accuracy", title="one")
    loss, accuracy = figure.axes
    assert [patch.get_height() for patch in loss.containers[0]] == [2.0, 3.0]
    assert [text.get_text() for text in loss.texts] == ["2", "3"]
    assert [text.get_text() for text in accuracy.texts] == ["25.0%", "50.0%"]
    assert [label.get_text() for label in accuracy.get_xticklabels()] == ["training", "validation"]
    assert accuracy.get_xlabel() == "after epoch 1"
    figure.savefig(BytesIO())


def test_a_loss_that_is_not_finite_can_be_drawn() -> None:
    (line,) = journal(1)
    line["train"]["loss"] = float("inf")
    figure = draw_curves([line], "accuracy")
    assert [text.get_text() for text in figure.axes[0].texts] == ["inf", "3"]
    figure.savefig(BytesIO())
