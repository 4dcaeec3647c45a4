"""Encoder, decoder and decoder-only: stacks of blocks. Padding is not computed."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.blocks import BlockConfig, DecoderBlock, EncoderBlock, closing_norm
from limelight.nn.cache import CausalCache, DecoderCache
from limelight.nn.kernels.packing import Packing
from limelight.nn.masks import hide_not_finite
from limelight.nn.validation import check_axes, check_batch, check_mask, check_size


class Encoder(nn.Module):
    """`depth` encoder blocks with the same settings."""

    def __init__(self, depth: int, config: BlockConfig) -> None:
        super().__init__()
        self.width = config.width
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(check_size("depth", depth)))
        self.norm = closing_norm(config)

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

        A mask with one row per sequence, (B, 1, T), is a padding mask: the positions that it hides are not
        computed, and their output is zero. A mask with T rows only restricts attention. With a `packing`, x
        and the result are its (N, D) real tokens. With `first`, only that many positions are returned, and
        the last block computes no others.
        """
        if first is not None and (mask is not None or causal or packing):
            raise wrong("first", first, "None with a mask, a packing or causal")
        tokens, inside = x, packing
        if packing is None:
            check_axes("x", x, "(B, T, D)", self.width)
            tokens, mask, inside = _pack(x, "mask", mask, rows=x.shape[1])
        for number, block in enumerate(self.blocks, 1):
            only = first if number == len(self.blocks) else None
            tokens = block(tokens, mask, causal=causal, packing=inside, first=only)
        tokens = self.norm(tokens)
        return tokens if packing else _unpack(tokens, mask, inside)


class Decoder(nn.Module):
    """`depth` decoder blocks with the same settings.

    `forward` computes a whole target at once; `start` and `step` compute it step by step with a cache.
    """

    def __init__(self, depth: int, config: BlockConfig) -> None:
        super().__init__()
        self.width = config.width
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(check_size("depth", depth)))
        self.norm = closing_norm(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D), (B|1, T|1, T), (B|1, T|1, S) -> (B, T, D)

        Always causal. Masks with one row per sequence are padding masks, as in `Encoder`. With packings, x,
        the result and the memory are real tokens.
        """
        tokens, inside = x, packing
        if packing is None:
            check_axes("x", x, "(B, T, D)", self.width)
            tokens, mask, inside = _pack(x, "mask", mask, rows=x.shape[1])
        if memory_packing is None:
            batch, length = (packing.batch, packing.length) if packing else x.shape[:2]
            check_axes("memory", memory, "(B, S, D)", self.width)
            check_batch("memory", memory, batch, "x")
            memory, memory_mask, memory_packing = _pack(memory, "memory_mask", memory_mask, rows=length)
        for block in self.blocks:
            tokens = block(tokens, memory, mask, memory_mask, packing=inside, memory_packing=memory_packing)
        tokens = self.norm(tokens)
        return tokens if packing else _unpack(tokens, mask, inside)

    def start(self, memory: Tensor, memory_mask: Tensor | None = None, *, capacity: int) -> DecoderCache:
        """(B, S, D), (B|1, 1, S) -> a cache for `capacity` target positions

        Projects the memory once for all steps.
        """
        check_axes("memory", memory, "(B, S, D)", self.width)
        tokens, memory_mask, packing = _pack(memory, "memory_mask", memory_mask, rows=1)
        blocks = cast(Iterable[DecoderBlock], self.blocks)
        memories = [block.cross_attention.project(tokens, packing) for block in blocks]
        return DecoderCache(memories, packing.mask if packing else memory_mask, capacity)

    def step(self, x: Tensor, cache: DecoderCache) -> Tensor:
        """(B, T, D) -> (B, T, D)

        The next T positions of each target, usually one; they are added to the cache.
        """
        if len(cache.memories) != len(self.blocks):
            raise wrong("cache", f"of {len(cache.memories)} blocks", f"{len(self.blocks)} blocks")
        check_batch("x", x, cache.batch, "the cache")
        for block, memory, decoded in zip(self.blocks, cache.memories, cache.decoded, strict=True):
            x = block(x, memory, memory_mask=cache.memory_mask, cache=decoded)
        return self.norm(x)


class DecoderOnly(nn.Module):
    """`depth` blocks of causal self-attention and a feed-forward network, as in GPT (Radford et al. 2018).

    `forward` computes a whole sequence at once; `start` and `step` compute it step by step with a cache.
    """

    def __init__(self, depth: int, config: BlockConfig) -> None:
        super().__init__()
        self.width = config.width
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(check_size("depth", depth)))
        self.norm = closing_norm(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D), (B|1, T|1, T) -> (B, T, D)

        Always causal. A mask only restricts attention further: all positions are computed.
        """
        check_axes("x", x, "(B, T, D)", self.width)
        for block in self.blocks:
            x = block(x, mask, causal=True)
        return self.norm(x)

    def start(self, *, capacity: int) -> CausalCache:
        """-> a cache for `capacity` positions"""
        return CausalCache(len(self.blocks), capacity)

    def step(self, x: Tensor, cache: CausalCache) -> Tensor:
        """(B, T, D) -> (B, T, D)

        The next T positions of each sequence; they are added to the cache.
        """
        if len(cache.blocks) != len(self.blocks):
            raise wrong("cache", f"of {len(cache.blocks)} blocks", f"{len(self.blocks)} blocks")
        for block, of_block in zip(self.blocks, cache.blocks, strict=True):
            x = block(x, causal=True, cache=of_block)
        return self.norm(x)


def _pack(
    x: Tensor, argument: str, mask: Tensor | None, rows: int
) -> tuple[Tensor, Tensor | None, Packing | None]:
    """Tokens, mask and packing: if the mask is a padding mask, only the real tokens of x (B, S, D) and their
    packing, which replaces the mask."""
    if mask is None:
        return x, None, None
    check_mask(argument, mask, (x.shape[0], rows, x.shape[1]), "(B, T, S)")
    # While a model is exported, the number of real tokens is unknown: all positions are computed.
    if mask.shape[1] != 1 or torch.compiler.is_exporting():
        return hide_not_finite(x, mask), mask, None
    packing = Packing(mask.expand(x.shape[0], -1, -1))
    return packing.take(x), None, packing


def _unpack(tokens: Tensor, mask: Tensor | None, packing: Packing | None) -> Tensor:
    """(N, D) | (B, T, D) -> (B, T, D)

    The output is zero where a padding mask (B, 1, T) hides a position.
    """
    if packing:
        return packing.pad(tokens)
    if mask is None or mask.shape[1] != 1:
        return tokens
    return tokens.masked_fill(~mask.transpose(1, 2), 0.0)
