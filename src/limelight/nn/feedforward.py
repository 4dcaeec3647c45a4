"""Position-wise feed-forward networks: plain and gated."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.dropout import Dropout, draw
from limelight.nn.kernels.linear import Linear
from limelight.nn.kernels.recompute import recomputed
from limelight.nn.validation import check_axes, check_size

# Without gradients, this many tokens are computed at once, so that their hidden units fit into the cache of
# the CPU. For thousands of tokens, allocating memory for all hidden units takes as long as computing them.
CHUNK = 1024

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # the approximation of GPT-2
}
GATES: dict[str, Callable[[Tensor], Tensor]] = {"swiglu": F.silu, "geglu": F.gelu}


def in_chunks(map_rows: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """(..., D) -> (..., D)

    Applies a function of each position; without gradients and for many positions, to a chunk at a time.
    """
    rows = x.reshape(-1, x.shape[-1])
    if torch.compiler.is_exporting() or torch.is_grad_enabled() or len(rows) < 4 * CHUNK:
        return map_rows(x)
    return torch.cat([map_rows(part) for part in rows.split(CHUNK)]).view(x.shape)


class FeedForward(nn.Module):
    """W₂ f(W₁ x + b₁) + b₂, applied to each position separately (Vaswani et al. 2017, equation 2)."""

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise wrong("activation", repr(activation), " or ".join(map(repr, ACTIVATIONS)))
        self.width = width
        self.expand = Linear(check_size("width", width), check_size("hidden", hidden), bias=bias)
        self.contract = Linear(hidden, width, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        check_axes("x", x, "(..., D)", self.width)
        return in_chunks(self._map, x)

    def _map(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        expanded = self.expand(x)
        drop = draw(expanded, self.dropout.p if self.training else 0.0)
        units = drop(self.activation(expanded))
        with recomputed(units, lambda: drop(self.activation(expanded))):
            return self.contract(units)


class GatedFeedForward(nn.Module):
    """W₂ (f(W_g x) ⊙ W₁ x), with f = SiLU for SwiGLU and GELU for GEGLU (Shazeer 2020, equation 6)."""

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        gate: str = "swiglu",
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if gate not in GATES:
            raise wrong("gate", repr(gate), " or ".join(map(repr, GATES)))
        self.width = width
        self.gate = Linear(check_size("width", width), check_size("hidden", hidden), bias=bias)
        self.expand = Linear(width, hidden, bias=bias)
        self.contract = Linear(hidden, width, bias=bias)
        self.activation = GATES[gate]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        check_axes("x", x, "(..., D)", self.width)
        return in_chunks(self._map, x)

    def _map(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        return self.contract(self.dropout(self.activation(self.gate(x)) * self.expand(x)))
