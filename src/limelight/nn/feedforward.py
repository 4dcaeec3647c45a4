"""The position-wise feed-forward network."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.dropout import Dropout
from limelight.nn.validation import check_axes, check_size

# Without gradients, this many tokens are computed at once, so that their hidden units fit into the cache of
# the CPU. For thousands of tokens, allocating memory for all hidden units takes as long as computing them.
CHUNK = 1024

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """W₂ f(W₁ x + b₁) + b₂, applied to each position separately (Vaswani et al. 2017, equation 2)."""

    def __init__(self, width: int, hidden: int, *, activation: str = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise wrong("activation", repr(activation), " or ".join(map(repr, ACTIVATIONS)))
        self.width = width
        self.expand = nn.Linear(check_size("width", width), check_size("hidden", hidden))
        self.contract = nn.Linear(hidden, width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        check_axes("x", x, "(..., D)", self.width)
        rows = x.reshape(-1, self.width)
        if torch.is_grad_enabled() or len(rows) < 4 * CHUNK:
            return self._map(x)
        return torch.cat([self._map(part) for part in rows.split(CHUNK)]).view(x.shape)

    def _map(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        return self.contract(self.dropout(self.activation(self.expand(x))))
