"""Encoder and decoder: stacks of blocks that compute real tokens only."""

from collections.abc import Iterable
from typing import cast

from torch import Tensor, nn

from limelight.nn.blocks import DecoderBlock, EncoderBlock, residual
from limelight.nn.cache import DecoderCache
from limelight.nn.errors import check_axes, check_size, wrong
from limelight.nn.masks import check_mask
from limelight.nn.packing import Packing


class Encoder(nn.Module):
    """`depth` encoder blocks."""

    def __init__(
        self,
        depth: int,
        width: int,
        heads: int,
        hidden: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        norm: str = "post",
    ) -> None:
        super().__init__()
        self.width = width
        self.blocks = nn.ModuleList(
            EncoderBlock(width, heads, hidden, activation=activation, dropout=dropout, norm=norm)
            for _ in range(check_size("depth", depth))
        )
        self.norm = residual(norm).closing(width)

    def forward(self, x: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """(B, T, D), (B|1, T|1, T) -> (B, T, D)

        A mask of one row a sequence, (B, 1, T), is padding: the positions it hides are not computed
        and come out as zeros. A mask of T rows only says who may attend to whom.
        """
        check_axes("x", x, "(B, T, D)", self.width)
        packing = _packing(x, mask, rows=x.shape[1])
        tokens = packing.take(x) if packing else x
        for block in self.blocks:
            tokens = block(tokens, mask, causal=causal, packing=packing)
        tokens = self.norm(tokens)
        return packing.pad(tokens) if packing else tokens


class Decoder(nn.Module):
    """`depth` decoder blocks; a whole target at once, or step by step with a cache."""

    def __init__(
        self,
        depth: int,
        width: int,
        heads: int,
        hidden: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        norm: str = "post",
    ) -> None:
        super().__init__()
        self.width = width
        self.blocks = nn.ModuleList(
            DecoderBlock(width, heads, hidden, activation=activation, dropout=dropout, norm=norm)
            for _ in range(check_size("depth", depth))
        )
        self.norm = residual(norm).closing(width)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D), (B|1, T|1, T), (B|1, T|1, S) -> (B, T, D)

        Causal always. Masks of one row a sequence are padding, as in `Encoder`.
        """
        check_axes("x", x, "(B, T, D)", self.width)
        check_axes("memory", memory, "(B, S, D)", self.width)
        packing = _packing(x, mask, rows=x.shape[1])
        memory_packing = _packing(memory, memory_mask, rows=x.shape[1])
        tokens = packing.take(x) if packing else x
        memory = memory_packing.take(memory) if memory_packing else memory
        for block in self.blocks:
            tokens = block(tokens, memory, mask, memory_mask, packing=packing, memory_packing=memory_packing)
        tokens = self.norm(tokens)
        return packing.pad(tokens) if packing else tokens

    def start(self, memory: Tensor, memory_mask: Tensor | None = None, *, capacity: int) -> DecoderCache:
        """(B, S, D), (B|1, 1, S) -> a cache with room for `capacity` target positions"""
        packing = _packing(memory, memory_mask, rows=1)
        tokens = packing.take(memory) if packing else memory
        blocks = cast(Iterable[DecoderBlock], self.blocks)
        memories = [block.cross_attention.project(tokens, packing) for block in blocks]
        if memory_mask is not None:
            memory_mask = memory_mask.expand(memory.shape[0], 1, memory.shape[1])
        return DecoderCache(memories, memory_mask, capacity)

    def step(self, x: Tensor, cache: DecoderCache) -> Tensor:
        """(B, T, D) -> (B, T, D)

        The next T positions of each target, most often one; the cache then holds them too.
        """
        if len(cache.memories) != len(self.blocks):
            raise wrong("cache", f"of {len(cache.memories)} blocks", f"{len(self.blocks)} blocks")
        if len(x) != cache.batch:  # before any block has kept something
            raise wrong("x", f"a batch of {len(x)}", f"{cache.batch}, as in the cache")
        for block, memory, decoded in zip(self.blocks, cache.memories, cache.decoded, strict=True):
            x = block(x, memory, memory_mask=cache.memory_mask, cache=decoded)
        return self.norm(x)


def _packing(x: Tensor, mask: Tensor | None, rows: int) -> Packing | None:
    """The packing that a padding mask over x (B, S, D) allows; None without one."""
    if mask is None:
        return None
    batch, size = x.shape[:2]
    check_mask(mask, (batch, rows, size), "(B, T, S)")
    if mask.shape[1] != 1:
        return None
    return Packing(mask.expand(batch, 1, size))
