"""What several tests share. Sizes are distinct primes, so that a swapped axis cannot pass."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

B, T, S, H, K = 3, 5, 7, 2, 11
D = H * K
HIDDEN = 29
# More keys than the explicit softmax serves on CPUs: with these the fused kernel runs.
MANY = 67

EXACT = {"rtol": 0.0, "atol": 0.0}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


def goes_red(check: Callable[..., Any], *broken: Any) -> None:
    """The negative control: what a check says of a deliberately broken variant."""
    with pytest.raises(AssertionError):
        check(*broken)


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Of one and the same random mixture of the output, so that no two errors cancel."""
    mixture = torch.randn(output.shape, generator=torch.Generator().manual_seed(7)).to(output.dtype)
    return torch.autograd.grad(output, inputs, mixture, retain_graph=True, materialize_grads=True)


def random_mask(*shape: int, allowed: float = 0.6) -> Tensor:
    """Random, with at least one key for each query."""
    mask = torch.rand(shape) < allowed
    mask[..., 0] = True
    return mask


def assert_same(got: Tensor, expected: Tensor) -> None:
    """float32: each element, to 1e-5 of the largest. bfloat16: all together, to 2 %, because one
    rounding more or less sends a single element over the kink of a ReLU."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if got.dtype == torch.bfloat16:
        difference = (got.float() - expected.float()).norm()
        assert difference <= 0.02 * expected.float().norm() + 1e-3
    else:
        scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5 * scale)
