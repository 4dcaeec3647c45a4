import pytest
import torch
from support import EXACT, B, D, T, gradients

from limelight.nn import Packing, padding_mask

LAYOUTS = {
    "right": padding_mask([5, 2, 3], T),
    "left": padding_mask([5, 2, 3], T).flip(-1),
    "between": torch.tensor([[[1, 0, 1, 0, 1]], [[0, 1, 1, 0, 0]], [[0, 0, 0, 0, 1]]]).bool(),
    "an empty row": padding_mask([5, 0, 3], T),
    "none": padding_mask([5, 5, 5], T),
    "all": padding_mask([0, 0, 0], T),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_take_returns_the_real_tokens_in_order_and_pad_restores_the_batch(layout: str) -> None:
    mask = LAYOUTS[layout]
    packing = Packing(mask)
    x = torch.randn(B, T, D, requires_grad=True)
    tokens = packing.take(x)
    torch.testing.assert_close(tokens, x[mask[:, 0]], **EXACT)
    torch.testing.assert_close(packing.pad(tokens), x * mask.transpose(1, 2), **EXACT)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_padding_is_exactly_zero_and_that_of_real_tokens_is_complete(layout: str) -> None:
    packing = Packing(LAYOUTS[layout])
    x = torch.randn(B, T, D, requires_grad=True)
    output = packing.pad(packing.take(x))
    (gradient,) = gradients(output, x)
    (whole,) = gradients(x * 1.0, x)
    torch.testing.assert_close(gradient, whole * LAYOUTS[layout].transpose(1, 2), **EXACT)


def test_take_works_for_labels() -> None:
    labels = torch.arange(B * T).view(B, T)
    assert Packing(LAYOUTS["right"]).take(labels).tolist() == [0, 1, 2, 3, 4, 5, 6, 10, 11, 12]


def test_an_empty_batch_has_no_tokens() -> None:
    packing = Packing(padding_mask([], 5))
    assert packing.take(torch.randn(0, 5, D)).shape == (0, D)
    assert packing.pad(torch.randn(0, D)).shape == (0, 5, D)


@pytest.mark.parametrize("mask", [torch.ones(B, T), torch.ones(B, T, T), torch.ones(B, 1, T)])
def test_a_mask_that_is_not_a_padding_mask_is_rejected(mask: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="mask is of"):
        Packing(mask if mask.shape == (B, 1, T) else mask.bool())


def test_a_batch_of_another_shape_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"padded is of shape \(3, 6, 22\); allowed: \(3, 5, ...\)"):
        Packing(LAYOUTS["right"]).take(torch.randn(B, T + 1, D))


def test_another_number_of_tokens_is_rejected() -> None:
    with pytest.raises(ValueError, match="tokens is 11 tokens; allowed: the 10 real ones of the mask"):
        Packing(LAYOUTS["right"]).pad(torch.randn(11, D))


def test_trailing_is_true_if_all_padding_is_on_the_right() -> None:
    trailing = {layout for layout, mask in LAYOUTS.items() if Packing(mask).trailing}
    assert trailing == {"right", "an empty row", "none", "all"}
