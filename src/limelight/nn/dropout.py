"""Dropout with random numbers that are cheap on CPUs."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Size, Tensor, nn

from limelight.nn.kernels.recompute import recomputed
from limelight.nn.validation import check_dropout

LEVELS = 2**16  # values of a 16-bit random number


def dropout(x: Tensor, share: float) -> Tensor:
    """(...) -> (...)

    Each element becomes zero with probability `share`; the others are scaled up, so that the mean stays.

    On CPUs torch draws random numbers serially, one per element, which takes longer than the matrix products
    of a layer. Here four elements share 64 random bits: `share` is rounded to a multiple of 1/65536, and the
    scale is exact for the rounded value.
    """
    return draw(x, share)(x)


def draw(x: Tensor, share: float) -> Callable[[Tensor], Tensor]:
    """(...) -> dropout of the elements of tensors of this shape; on CPUs the same elements at each call"""
    if not share:
        return lambda x: x
    if x.device.type != "cpu":
        return lambda x: F.dropout(x, share)
    bits = _random_bits(x)

    def drop(x: Tensor) -> Tensor:
        keep = _factors(bits, x.shape, x.dtype, share)
        # Only the bits are kept: half of the memory.
        with recomputed(keep, partial(_factors, bits, x.shape, x.dtype, share)):
            return x * keep

    return drop


def keep_mask(x: Tensor, share: float) -> Tensor:
    """(...) -> (...)

    The factors that dropout multiplies x with: zeros, and the scale of the elements that are kept.
    """
    return _factors(_random_bits(x), x.shape, x.dtype, share)


def _random_bits(x: Tensor) -> Tensor:
    """16 random bits per element of x"""
    return torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)


def _factors(bits: Tensor, shape: Size, dtype: torch.dtype, share: float) -> Tensor:
    levels = bits.view(torch.int16)[: shape.numel()].view(shape)
    kept_levels = max(1, round((1 - share) * LEVELS))
    keep = torch.empty(shape, dtype=dtype)
    # The comparison writes floating-point numbers: converting booleans afterwards takes three times as long.
    return torch.ge(levels, LEVELS // 2 - kept_levels, out=keep).mul_(LEVELS / kept_levels)


class Dropout(nn.Dropout):
    """`dropout` in training, the identity in evaluation."""

    def __init__(self, share: float) -> None:
        super().__init__(check_dropout(share))

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return dropout(x, self.p) if self.training else x
