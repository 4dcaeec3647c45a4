"""Figures of masks and positions; dark figures."""

from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from support import must_fail, not_none

from limelight.errors import WrongInput
from limelight.nn import SinusoidalPositions, causal_mask, padding_mask
from limelight.view import darken, draw_attention, draw_curves, draw_mask, draw_positions


def test_a_mask_is_drawn_cell_by_cell() -> None:
    figure = draw_mask(causal_mask(5), list("abcde"), title="causal")
    drawn = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(drawn, np.tril(np.ones((5, 5))))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == list("abcde")
    legend = not_none(figure.axes[0].get_legend())
    assert [text.get_text() for text in legend.get_texts()] == ["may attend", "may not attend"]
    padding = not_none(draw_mask(padding_mask([3], 7)).axes[0].images[0].get_array())
    assert padding.tolist() == [[1, 1, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    "mask", [torch.ones(2, 3, 5, dtype=torch.bool), torch.zeros(3, 5), torch.ones(0, 3, dtype=torch.bool)]
)
def test_tensors_that_are_no_masks_raise_an_error(mask: torch.Tensor) -> None:
    with pytest.raises(WrongInput, match=r"mask is of shape .* allowed: \(T, S\) of booleans"):
        draw_mask(mask)


def test_positions_are_drawn_with_their_cosine_similarities() -> None:
    positions = SinusoidalPositions(16)(torch.zeros(1, 11, 16))[0]
    vectors, similarity = (
        not_none(axes.images[0].get_array()) for axes in draw_positions(positions).axes[:2]
    )
    np.testing.assert_allclose(vectors, positions.numpy())
    np.testing.assert_allclose(np.diag(similarity), 1, rtol=1e-6)
    assert similarity[0, 1] > similarity[0, 10]


def brightness(figure: Figure) -> float:
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=60)
    stream.seek(0)
    return float(np.median(imread(stream)[..., :3]))


JOURNAL = [{"epoch": e, "train": {"loss": 1 / e}, "validation": {"loss": 2 / e}} for e in (1.0, 2.0)]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: draw_attention(torch.rand(2, 3, 3).softmax(-1), list("abc"), title="a"),
        lambda: draw_mask(causal_mask(3), title="b"),
        lambda: draw_curves(JOURNAL, "loss", title="c"),
    ],
    ids=["attention", "mask", "curves"],
)
def test_a_dark_figure_has_a_dark_background_and_light_text(draw: Callable[[], Figure]) -> None:
    def check_dark(figure: Figure) -> None:
        assert brightness(figure) < 0.3
        texts = [*figure.texts, *(axes.title for axes in figure.axes), *(a.xaxis.label for a in figure.axes)]
        assert all(sum(int(str(text.get_color())[i : i + 2], 16) for i in (1, 3, 5)) > 500 for text in texts)

    check_dark(darken(draw()))
    must_fail(check_dark, draw())
