"""Dropout with random numbers that are cheap on CPUs."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limelight.nn.validation import check_dropout

LEVELS = 2**16  # values of a 16-bit random number


def dropout(x: Tensor, share: float) -> Tensor:
    """(...) -> (...)

    Each element becomes zero with probability `share`; the others are scaled up, so that the mean stays.

    On CPUs torch draws random numbers serially, one per element, which takes longer than the matrix products
    of a layer. Here four elements share 64 random bits: `share` is rounded to a multiple of 1/65536, and the
    scale is exact for the rounded value.
    """
    if not share:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, share)
    return x * keep_mask(x, share)


def keep_mask(x: Tensor, share: float) -> Tensor:
    """(...) -> (...)

    The factors that dropout multiplies x with: zeros, and the scale of the elements that are kept.
    """
    kept_levels = max(1, round((1 - share) * LEVELS))
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    levels = bits.view(torch.int16)[: x.numel()].view(x.shape)
    # The comparison writes floating-point numbers: converting booleans afterwards takes three times as long.
    return torch.ge(levels, LEVELS // 2 - kept_levels, out=torch.empty_like(x)).mul_(LEVELS / kept_levels)


class Dropout(nn.Dropout):
    """`dropout` in training, the identity in evaluation."""

    def __init__(self, share: float) -> None:
        super().__init__(check_dropout(share))

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return dropout(x, self.p) if self.training else x
