"""Dropout with cheap random numbers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limelight.nn.validation import check_dropout

LEVELS = 2**16  # a random number has 16 bits


def dropout(x: Tensor, share: float) -> Tensor:
    """(...) -> (...)

    Each element becomes zero with probability `share`; the others grow, so that the mean stays.

    On CPUs torch draws a serial random number an element, which costs more than a layer's products. Here
    four elements share 64 random bits: `share` is rounded to 1/65536, and the growth is exact for that.
    """
    if not share:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, share)
    return x * kept(x, share)


def kept(x: Tensor, share: float) -> Tensor:
    """(...) -> (...)

    What dropout multiplies with: zeros, and the growth of what is left.
    """
    left = max(1, round((1 - share) * LEVELS))
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    levels = bits.view(torch.int16)[: x.numel()].view(x.shape)
    # Compared into numbers: truth values that become numbers later take three times as long.
    return torch.ge(levels, LEVELS // 2 - left, out=torch.empty_like(x)).mul_(LEVELS / left)


class Dropout(nn.Dropout):
    """`dropout` while training, nothing else."""

    def __init__(self, share: float) -> None:
        super().__init__(check_dropout(share))

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return dropout(x, self.p) if self.training else x
