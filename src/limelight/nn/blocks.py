"""The blocks of encoder and decoder. Where the norm stands is decided here and nowhere else."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.cache import Cache, KeyValues
from limelight.nn.dropout import Dropout
from limelight.nn.feedforward import FeedForward
from limelight.nn.kernels.packing import Packing
from limelight.nn.masks import hide_not_finite
from limelight.nn.multihead import MultiHeadAttention
from limelight.nn.validation import check_axes, check_mask

Sublayer = Callable[[Tensor], Tensor]


class _Residual(nn.Module):
    """x plus what a sub-layer makes of it.

    A sub-layer may give the first positions of x alone; then they alone go on. With `skip`, the share of
    the examples that go around the sub-layer while training (stochastic depth, Huang et al. 2016), what is
    added to the others grows, so that the mean stays.
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        self.skip = 0.0

    def _add(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """(B, T, D) -> (B, t, D)"""
        if self.training and self.skip:
            return self._add_to_some(x, sublayer)
        added = self.dropout(sublayer(x))
        return added + (x if added.shape == x.shape else x[:, : added.shape[1]])

    def _add_to_some(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Those that go around are not computed."""
        count = max(1, round(len(x) * (1 - self.skip)))
        some_R = torch.randperm(len(x), device=x.device)[:count]
        added = self.dropout(sublayer(x.index_select(0, some_R)))
        first = x[:, : added.shape[1]]
        return first.index_add(0, some_R, added.to(x.dtype), alpha=len(x) / count)


class PostNorm(_Residual):
    """norm(x + f(x)), as in the paper (Vaswani et al. 2017, section 3.1)."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """(..., D) -> (..., D)"""
        return self.norm(self._add(x, sublayer))

    @staticmethod
    def closing(width: int) -> nn.Module:
        """What a stack of such blocks ends with: each block has left its output normed."""
        return nn.Identity()


class PreNorm(_Residual):
    """x + f(norm(x)): the sum stays untouched from end to end (Xiong et al. 2020)."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """(..., D) -> (..., D)"""
        return self._add(x, lambda x: sublayer(self.norm(x)))

    @staticmethod
    def closing(width: int) -> nn.Module:
        """What a stack of such blocks ends with: the sum was never normed."""
        return nn.LayerNorm(width)


RESIDUALS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}


def residual(norm: str) -> type[PostNorm] | type[PreNorm]:
    """The residual connection with its norm where `norm` says."""
    if norm not in RESIDUALS:
        raise wrong("norm", repr(norm), " or ".join(map(repr, RESIDUALS)))
    return RESIDUALS[norm]


def _without_hidden_nan(x: Tensor, mask: Tensor | None) -> Tensor:
    """(B, T, D), (B|1, T|1, T) -> (B, T, D)"""
    if mask is not None and mask.dtype == torch.bool:  # what is no mask is refused by the attention
        check_mask("mask", mask, (len(x), x.shape[1], x.shape[1]), "(B, T, S)")
        x = hide_not_finite(x, mask)
    return x


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward with `hidden` units; `norm` is "post" or "pre".

    `dropout` is of what each of them adds; `inner_dropout`, if it is another, of attention weights and
    feed-forward units.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        inner_dropout: float | None = None,
        norm: str = "post",
    ) -> None:
        super().__init__()
        Residual = residual(norm)
        inner = dropout if inner_dropout is None else inner_dropout
        self.width = width
        self.self_attention = MultiHeadAttention(width, heads, dropout=inner)
        self.self_residual = Residual(width, dropout)
        self.feedforward = FeedForward(width, hidden, activation=activation, dropout=inner)
        self.feedforward_residual = Residual(width, dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        packing: Packing | None = None,
        first: int | None = None,
    ) -> Tensor:
        """(B, T, D), (B|1, T|1, T) -> (B, T, D)

        With a `packing`, x and the result are its (N, D) real tokens. With `first`, as many positions
        are computed, and come out; the others are only attended to.
        """
        check_axes("x", x, "(N, D)" if packing else "(B, T, D)", self.width)
        if packing is None:
            x = _without_hidden_nan(x, mask)

        def attend_to_itself(x: Tensor) -> Tensor:
            if first is not None:
                return self.self_attention(x[:, :first], x, mask)
            return self.self_attention(x, mask=mask, causal=causal, packing=packing)

        x = self.self_residual(x, attend_to_itself)
        return self.feedforward_residual(x, self.feedforward)


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to a memory, then feed-forward."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        inner_dropout: float | None = None,
        norm: str = "post",
    ) -> None:
        super().__init__()
        Residual = residual(norm)
        inner = dropout if inner_dropout is None else inner_dropout
        self.width = width
        self.self_attention = MultiHeadAttention(width, heads, dropout=inner)
        self.self_residual = Residual(width, dropout)
        self.cross_attention = MultiHeadAttention(width, heads, dropout=inner, role="cross")
        self.cross_residual = Residual(width, dropout)
        self.feedforward = FeedForward(width, hidden, activation=activation, dropout=inner)
        self.feedforward_residual = Residual(width, dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | KeyValues,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        cache: Cache | None = None,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D), (B|1, T|1, T), (B|1, T|1, S) -> (B, T, D)

        Causal always, in training and in evaluation. With a `cache`, x follows what it holds. With
        packings, x, the result and the memory are real tokens.
        """
        check_axes("x", x, "(N, D)" if packing else "(B, T, D)", self.width)
        if packing is None and cache is None:
            x = _without_hidden_nan(x, mask)

        def attend_to_itself(x: Tensor) -> Tensor:
            return self.self_attention(x, mask=mask, causal=True, cache=cache, packing=packing)

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.cross_attention(
                x, memory, memory_mask, packing=packing, memory_packing=memory_packing
            )

        x = self.self_residual(x, attend_to_itself)
        x = self.cross_residual(x, attend_to_memory)
        return self.feedforward_residual(x, self.feedforward)
