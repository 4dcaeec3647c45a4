"""A decoder for generation: the computation of `Decoder.step`, arranged for a few rows at a time."""

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from limelight.nn.blocks import DecoderBlock, PreNorm
from limelight.nn.cache import KeyValues
from limelight.nn.kernels.fast_parts import (
    FastCache,
    FastFeedForward,
    FastLinear,
    FastNorm,
    FastSelfAttention,
    Memory,
)
from limelight.nn.multihead import MultiHeadAttention
from limelight.nn.norms import RMSNorm
from limelight.nn.stacks import Decoder


class SeveralSources:
    """Cross-attention to several sources: keys (G, K, S) and values (G, S, K), where G is sources × heads.

    Rows of the batch with the same source, such as beams, are adjacent and share it. `mask_bias` (G, 1, S) is
    -inf at padding; None if there is no padding.
    """

    def __init__(
        self,
        query: "FastLinear | _NormedQuery",
        output: FastLinear,
        keys: Tensor,
        values: Tensor,
        mask_bias: Tensor | None,
        heads: int,
    ) -> None:
        self.query, self.output, self.heads = query, output, heads
        self.keys, self.values, self.mask_bias = keys, values, mask_bias

    def attend(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)

        Multi-head attention of each row to its source.
        """
        sources = len(self.keys) // self.heads
        rows = len(x) // sources
        q_GRK = self.query(x).view(sources, rows, self.heads, -1).transpose(1, 2).flatten(0, 1)
        scores_GRS = torch.bmm(q_GRK, self.keys)
        if self.mask_bias is not None:
            scores_GRS += self.mask_bias
        mixed_GRK = torch.bmm(scores_GRS.softmax(-1), self.values)
        return self.output(mixed_GRK.view(sources, self.heads, rows, -1).transpose(1, 2).reshape(x.shape))

    def reordered(self, sources: Tensor) -> "SeveralSources":
        """The sources with the indices `sources` (R), in that order."""
        index = _head_index(sources, self.heads)
        mask_bias = None if self.mask_bias is None else self.mask_bias.index_select(0, index)
        keys, values = self.keys.index_select(0, index), self.values.index_select(0, index)
        return SeveralSources(self.query, self.output, keys, values, mask_bias, self.heads)


class OneSource:
    """Cross-attention of all rows to one source: projections and source are multiplied once, in advance.

    The scores x W_q K_hᵀ are x times one matrix (D, S) per head; weights, values and output projection are
    merged in the same way.
    """

    def __init__(self, query: FastLinear, output: FastLinear, keys: Tensor, values: Tensor) -> None:
        """`keys` are (H, K, S), `values` are (H, S, K)."""
        self.heads, width = len(keys), len(query.matrix)
        query_HDK = query.matrix.view(width, self.heads, -1).transpose(0, 1)
        self.score = torch.bmm(query_HDK, keys).transpose(0, 1).reshape(width, -1)
        self.score_bias = torch.bmm(query.bias.view(self.heads, 1, -1), keys).flatten()
        self.mix = torch.bmm(values, output.matrix.view(self.heads, -1, width)).flatten(0, 1)
        self.mix_bias = output.bias

    def attend(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)

        Multi-head attention of each row to the source.
        """
        scores_BHS = torch.addmm(self.score_bias, x, self.score).view(len(x), self.heads, -1)
        return torch.addmm(self.mix_bias, scores_BHS.softmax(-1).flatten(1), self.mix)

    def reordered(self, sources: Tensor) -> "OneSource":
        """Itself: all rows have the same source."""
        return self


class _NormedQuery:
    """The projection of the queries of cross-attention, with the norm of each head."""

    def __init__(self, attention: MultiHeadAttention, norm: RMSNorm) -> None:
        self.linear, self.heads = FastLinear(attention.query), attention.heads
        self.norm = FastNorm(norm)
        self.norm.weight *= _scale(attention)

    def __call__(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)"""
        return self.norm(self.linear(x).unflatten(1, (self.heads, -1))).flatten(1)


class FastDecoder:
    """The steps of a decoder, without dropout and without taps, computed with copies of its weights.

    A step with one row takes half the time of `Decoder.step`; a step with sixty-four rows takes slightly
    less.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.blocks = [_Block(block) for block in cast(Iterable[DecoderBlock], decoder.blocks)]
        self.norm = None if isinstance(decoder.norm, nn.Identity) else FastNorm(decoder.norm)

    @torch.no_grad()
    def start(self, memory: Tensor, memory_mask: Tensor | None = None, *, capacity: int) -> FastCache:
        """(B, S, D), (B|1, 1, S) -> a cache for `capacity` target positions

        Projects the memory once for all steps.
        """
        started = self.decoder.start(memory, memory_mask, capacity=capacity)
        heads = self.blocks[0].heads
        mask_bias = None
        if started.memory_mask is not None:
            mask_bias = torch.zeros_like(started.memory_mask, dtype=memory.dtype)
            mask_bias = mask_bias.masked_fill(~started.memory_mask, -math.inf).repeat_interleave(heads, 0)
        memories = [
            block.memory(projected, mask_bias)
            for block, projected in zip(self.blocks, started.memories, strict=True)
        ]
        return FastCache([block.self_attention for block in self.blocks], len(memory), capacity, memories)

    @torch.no_grad()
    def step(self, x: Tensor, cache: FastCache) -> Tensor:
        """(B, D) -> (B, D)

        The next position of each target; it is added to the cache.
        """
        cache.check_space()
        for number, block in enumerate(self.blocks):
            x = block.step(x, cache, number)
        cache.length += 1
        return x if self.norm is None else self.norm(x)


class _Block:
    def __init__(self, block: DecoderBlock) -> None:
        cross = block.cross_attention
        self.heads, self.pre = cross.heads, isinstance(block.self_residual, PreNorm)
        residuals = (block.self_residual, block.cross_residual, block.feedforward_residual)
        self.norms = [FastNorm(residual.norm) for residual in residuals]
        self.self_attention = FastSelfAttention(block.self_attention)
        self.cross_query = (
            FastLinear(cross.query, scale=_scale(cross))
            if cross.query_norm is None
            else _NormedQuery(cross, cross.query_norm)
        )
        self.cross_output = FastLinear(cross.output)
        self.feedforward = FastFeedForward(block.feedforward)

    def step(self, x: Tensor, cache: FastCache, number: int) -> Tensor:
        """(B, D) -> (B, D)"""
        if self.pre:
            x = x + self.self_attention.step(self.norms[0](x), cache, number)
            x = x + cache.memories[number].attend(self.norms[1](x))
            return x + self.feedforward(self.norms[2](x))
        x = self.norms[0](x + self.self_attention.step(x, cache, number))
        x = self.norms[1](x + cache.memories[number].attend(x))
        return self.norms[2](x + self.feedforward(x))

    def memory(self, projected: KeyValues, mask_bias: Tensor | None) -> Memory:
        """(B, h, S, K), (B, h, S, K), (G, 1, S) -> cross-attention to this memory"""
        groups = self.heads // projected.keys.shape[1]
        keys, values = (x.repeat_interleave(groups, 1).flatten(0, 1) for x in projected)
        k_GKS, query, output = keys.mT.contiguous(), self.cross_query, self.cross_output
        # For a long source, the two merged matrices would be larger than those that they replace.
        short = self.heads * k_GKS.shape[2] <= 2 * len(output.matrix)
        if len(projected.keys) == 1 and mask_bias is None and short and isinstance(query, FastLinear):
            return OneSource(query, output, k_GKS, values)
        return SeveralSources(query, output, k_GKS, values, mask_bias, self.heads)


def _head_index(index: Tensor, heads: int) -> Tensor:
    """(R) -> (G)

    The indices of the heads of each row.
    """
    return (index.unsqueeze(1) * heads + torch.arange(heads, device=index.device)).flatten()


def _scale(attention: MultiHeadAttention) -> float:
    return math.sqrt(attention.heads / attention.width)
