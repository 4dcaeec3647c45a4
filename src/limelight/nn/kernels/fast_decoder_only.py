"""A decoder-only stack for generation: the computation of `DecoderOnly.step`, for a few rows at a time."""

from collections.abc import Iterable
from copy import copy
from typing import Self, cast

import torch
from torch import Tensor, nn

from limelight.nn.blocks import EncoderBlock, PreNorm
from limelight.nn.kernels.fast_parts import FastCache, FastFeedForward, FastNorm, FastSelfAttention
from limelight.nn.stacks import DecoderOnly


class FastDecoderOnly:
    """The steps of a decoder-only stack, without dropout and taps, computed with copies of its weights."""

    @torch.no_grad()
    def __init__(self, decoder: DecoderOnly) -> None:
        self.decoder = decoder
        self.blocks = [_Block(block) for block in cast(Iterable[EncoderBlock], decoder.blocks)]
        self.norm = None if isinstance(decoder.norm, nn.Identity) else FastNorm(decoder.norm)

    @torch.no_grad()
    def start(self, x: Tensor, *, capacity: int) -> tuple[Tensor, FastCache]:
        """(B, T, D) -> (B, T, D), and a cache for `capacity` positions, which contains the first T"""
        started = self.decoder.start(capacity=capacity)
        attentions = [block.self_attention for block in self.blocks]
        cache = FastCache(attentions, len(x), capacity)
        x = self.decoder.step(x, started)
        for attention, buffer, past in zip(attentions, cache.buffers, started.blocks, strict=True):
            attention.fill(buffer, past.used)
        cache.length = started.length
        return x, cache

    @torch.no_grad()
    def step(self, x: Tensor, cache: FastCache) -> Tensor:
        """(N, D) -> (N, D)

        The next position of each sequence, or the next N positions of the only sequence; they are added to
        the cache.
        """
        count = len(x) // cache.batch
        cache.check_space(count)
        for number, block in enumerate(self.blocks):
            x = block.step(x, cache, number)
        cache.length += count
        return x if self.norm is None else self.norm(x)

    @torch.no_grad()
    def in_eight_bits(self) -> Self:
        """A copy that computes with weights of eight bits: approximate steps of one sequence."""
        other = copy(self)
        other.blocks = [block.in_eight_bits() for block in self.blocks]
        return other


class _Block:
    def __init__(self, block: EncoderBlock) -> None:
        self.pre = isinstance(block.self_residual, PreNorm)
        self.norms = [
            FastNorm(residual.norm) for residual in (block.self_residual, block.feedforward_residual)
        ]
        self.self_attention = FastSelfAttention(block.self_attention)
        self.feedforward = FastFeedForward(block.feedforward)

    def in_eight_bits(self) -> Self:
        """A copy for one row that computes with weights of eight bits."""
        other = copy(self)
        other.self_attention = self.self_attention.in_eight_bits()
        other.feedforward = self.feedforward.in_eight_bits()
        return other

    def step(self, x: Tensor, cache: FastCache, number: int) -> Tensor:
        """(N, D) -> (N, D)"""
        if self.pre:
            x = x + self.self_attention.step(self.norms[0](x), cache, number)
            return x + self.feedforward(self.norms[1](x))
        x = self.norms[0](x + self.self_attention.step(x, cache, number))
        return self.norms[1](x + self.feedforward(x))
