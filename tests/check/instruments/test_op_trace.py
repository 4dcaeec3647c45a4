"""The trace of torch operations finds attentions, however they are written."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from limelight.check.instruments.op_trace import attentions, same_values, trace


def by_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def scaled_before(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q * q.shape[-1] ** -0.5) @ k.mT).softmax(-1) @ v


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("attention", [by_softmax, scaled_before, fused])
def test_scale_width_and_weights_are_found(attention: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    q, k, v = torch.randn(2, 1, 3, 11), torch.randn(2, 1, 5, 11), torch.randn(2, 1, 5, 11)
    _, steps = trace(lambda: attention(q, k, v))
    (found,) = attentions(steps)
    assert found.scale == pytest.approx(1 / math.sqrt(11), rel=1e-3)
    assert found.width == 11
    assert torch.allclose(found.weights, (q @ k.mT / math.sqrt(11)).softmax(-1)[:, 0], atol=1e-5)


def test_values_are_compared_in_any_order_and_shape() -> None:
    x = torch.randn(3, 4)
    assert same_values(x, x.T.reshape(2, 6))
    assert same_values(2 * x, x, factor=2.0)
    assert not same_values(x, x + 1)
