"""Encoder and decoder blocks. Only this module places the norms: pre-norm or post-norm."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.cache import Cache, KeyValues
from limelight.nn.dropout import Dropout
from limelight.nn.feedforward import GATES, FeedForward, GatedFeedForward
from limelight.nn.kernels.packing import Packing
from limelight.nn.kernels.recompute import recomputed
from limelight.nn.masks import hide_not_finite
from limelight.nn.multihead import PLAIN, AttentionVariant, MultiHeadAttention
from limelight.nn.norms import RMSNorm, split_norm
from limelight.nn.tap import Role
from limelight.nn.validation import check_axes, check_mask

Sublayer = Callable[[Tensor], Tensor]
BIASES = ("all", "query-key-value", "none")


@dataclass(frozen=True)
class BlockConfig:
    """The settings of a block, shared by all blocks of an encoder or a decoder.

    `width` is the model width D, `hidden` the feed-forward width F. `feedforward` is "plain", with the
    `activation` "relu", "gelu", "gelu-tanh" or "silu", or gated: "swiglu" or "geglu". `norm` is "post" or
    "pre" for layer norms, "post-rms" or "pre-rms" for RMS norms; `norm_epsilon` is their ε, None means its
    default. `dropout` applies to the output of each sub-layer, `inner_dropout` to the attention weights and
    feed-forward units; None means the same as `dropout`. `bias` adds biases to "all" linear layers, to those
    of "query-key-value" or to "none". `attention` is the variant of attention.
    """

    width: int
    heads: int
    hidden: int
    activation: str = "relu"
    feedforward: str = "plain"
    norm: str = "post"
    dropout: float = 0.0
    inner_dropout: float | None = None
    bias: str = "all"
    norm_epsilon: float | None = None
    attention: AttentionVariant = PLAIN


class _Residual(nn.Module):
    """A residual connection: x + f(x) for a sub-layer f, with dropout and a norm.

    If the sub-layer returns only the first positions of x, so does the residual connection. `skip` is the
    share of the examples that skip the sub-layer in training (stochastic depth, Huang et al. 2016); the
    output of the sub-layer is scaled up for the others, so that the mean stays.
    """

    def __init__(self, norm: nn.LayerNorm | RMSNorm, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.skip = 0.0

    def _add(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """(B, T, D) -> (B, t, D)"""
        if self.training and self.skip:
            return self._add_to_subset(x, sublayer)
        added = self.dropout(sublayer(x))
        return added + (x if added.shape == x.shape else x[:, : added.shape[1]])

    def _add_to_subset(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """(B, T, D) -> (B, t, D)

        The sub-layer is computed only for the examples that do not skip it.
        """
        count = max(1, round(len(x) * (1 - self.skip)))
        kept_R = torch.randperm(len(x), device=x.device)[:count]
        added_RtD = self.dropout(sublayer(x.index_select(0, kept_R)))
        x_BtD = x[:, : added_RtD.shape[1]]
        return x_BtD.index_add(0, kept_R, added_RtD.to(x.dtype), alpha=len(x) / count)


class PostNorm(_Residual):
    """norm(x + f(x)), as in the paper (Vaswani et al. 2017, section 3.1)."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """(..., D) -> (..., D)"""
        return self.norm(self._add(x, sublayer))


class PreNorm(_Residual):
    """x + f(norm(x)): no norm on the residual path (Xiong et al. 2020)."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """(..., D) -> (..., D)"""

        def normed(x: Tensor) -> Tensor:
            x_normed = self.norm(x)
            with recomputed(x_normed, lambda: self.norm.forward(x)):
                return sublayer(x_normed)

        return self._add(x, normed)


RESIDUALS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}


def closing_norm(config: BlockConfig) -> nn.LayerNorm | RMSNorm | nn.Identity:
    """The end of a stack: a norm if the blocks are pre-norm, which do not normalise their output."""
    place, norm = split_norm(config.norm, config.norm_epsilon)
    return norm(config.width) if place == "pre" else nn.Identity()


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network, each with a residual connection."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.width = config.width
        self.self_attention = _attention(config, "self")
        self.self_residual = _residual(config)
        self.feedforward = _feedforward(config)
        self.feedforward_residual = _residual(config)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        cache: Cache | None = None,
        packing: Packing | None = None,
        first: int | None = None,
    ) -> Tensor:
        """(B, T, D), (B|1, T|1, T) -> (B, T, D)

        With a `cache`, x continues after the positions in the cache. With a `packing`, x and the result are
        its (N, D) real tokens. With `first`, only the first `first` positions are computed and returned; the
        others are only attended to.
        """
        check_axes("x", x, "(N, D)" if packing else "(B, T, D)", self.width)
        if packing is None and cache is None:
            x = _hide_not_finite(x, mask)

        def attend_to_self(x: Tensor) -> Tensor:
            if first is not None:
                return self.self_attention(x[:, :first], x, mask)
            return self.self_attention(x, mask=mask, causal=causal, cache=cache, packing=packing)

        x = self.self_residual(x, attend_to_self)
        return self.feedforward_residual(x, self.feedforward)


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to a memory, then a feed-forward network."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.width = config.width
        self.self_attention = _attention(config, "self")
        self.self_residual = _residual(config)
        self.cross_attention = _attention(config, "cross")
        self.cross_residual = _residual(config)
        self.feedforward = _feedforward(config)
        self.feedforward_residual = _residual(config)

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

        Always causal, in training and in evaluation. With a `cache`, x continues after the positions in the
        cache. With packings, x, the result and the memory are real tokens.
        """
        check_axes("x", x, "(N, D)" if packing else "(B, T, D)", self.width)
        if packing is None and cache is None:
            x = _hide_not_finite(x, mask)

        def attend_to_self(x: Tensor) -> Tensor:
            return self.self_attention(x, mask=mask, causal=True, cache=cache, packing=packing)

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.cross_attention(
                x, memory, memory_mask, packing=packing, memory_packing=memory_packing
            )

        x = self.self_residual(x, attend_to_self)
        x = self.cross_residual(x, attend_to_memory)
        return self.feedforward_residual(x, self.feedforward)


def _attention(config: BlockConfig, role: Role) -> MultiHeadAttention:
    if config.bias not in BIASES:
        raise wrong("bias", repr(config.bias), ", ".join(map(repr, BIASES)))
    return MultiHeadAttention(
        config.width,
        config.heads,
        dropout=_inner_dropout(config),
        bias=config.bias != "none",
        output_bias=config.bias == "all",
        role=role,
        variant=config.attention if role == "self" else config.attention.of_memory,
    )


def _feedforward(config: BlockConfig) -> FeedForward | GatedFeedForward:
    width, hidden, dropout, bias = config.width, config.hidden, _inner_dropout(config), config.bias == "all"
    if config.feedforward == "plain":
        return FeedForward(width, hidden, activation=config.activation, dropout=dropout, bias=bias)
    if config.feedforward not in GATES:
        raise wrong("feedforward", repr(config.feedforward), " or ".join(map(repr, ("plain", *GATES))))
    return GatedFeedForward(width, hidden, gate=config.feedforward, dropout=dropout, bias=bias)


def _residual(config: BlockConfig) -> PostNorm | PreNorm:
    place, norm = split_norm(config.norm, config.norm_epsilon)
    return RESIDUALS[place](norm(config.width), config.dropout)


def _inner_dropout(config: BlockConfig) -> float:
    return config.dropout if config.inner_dropout is None else config.inner_dropout


def _hide_not_finite(x: Tensor, mask: Tensor | None) -> Tensor:
    """(B, T, D), (B|1, T|1, T) -> (B, T, D)"""
    if mask is None or mask.dtype != torch.bool:  # the attention rejects a mask of another type
        return x
    check_mask("mask", mask, (x.shape[0], x.shape[1], x.shape[1]), "(B, T, S)")
    return hide_not_finite(x, mask)
