"""A decoder's step for writing: the mathematics of `Decoder.step`, laid out for a few rows at a time."""

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.blocks import DecoderBlock, PreNorm
from limelight.nn.multihead import MultiHeadAttention
from limelight.nn.stacks import Decoder


class LeanCache:
    """As `DecoderCache`, with the heads of a batch in one axis, n = B·H, so that a product is one call."""

    def __init__(self, memories: list[tuple[Tensor, Tensor]], hidden: Tensor | None, batch: int) -> None:
        self.memories = memories  # per block (n, K, S), (n, S, K)
        self.hidden = hidden  # (n, 1, S): -inf where a source has no token; None where all have as many
        self.batch, self.length = batch, 0
        self.decoded: list[Tensor] = []  # per block (2, n, capacity, K): keys and values

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keep the sequences that `index` (R) names, in its order. Without `sources`, each goes on with the
        source that its row had, as beams of one sentence do."""
        rows = self._rows(index)
        if sources:
            self.memories = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.memories]
            self.hidden = None if self.hidden is None else self.hidden.index_select(0, rows)
        for block, room in enumerate(self.decoded):
            kept = room[:, :, : self.length].index_select(1, rows)
            if len(index) != self.batch:
                self.decoded[block] = room.new_empty(2, len(rows), *room.shape[2:])
            self.decoded[block][:, :, : self.length] = kept
        self.batch = len(index)

    def _rows(self, index: Tensor) -> Tensor:
        """(R) -> (R·H)"""
        heads = len(self.memories[0][0]) // self.batch
        return (index.unsqueeze(1) * heads + torch.arange(heads, device=index.device)).flatten()


class LeanDecoder:
    """Copies a decoder's weights and computes what its `step` does, without dropout and without taps.

    At one row a step is nothing but calls and reading weights. Here a block is a dozen calls, and matrices
    lie transposed, as they are read: three times as fast at one row, the same at sixty-four.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.blocks = [_Block(block) for block in cast(Iterable[DecoderBlock], decoder.blocks)]
        self.norm = _Norm(decoder.norm) if isinstance(decoder.norm, nn.LayerNorm) else None

    @torch.no_grad()
    def start(self, memory: Tensor, memory_mask: Tensor | None = None, *, capacity: int) -> LeanCache:
        """(B, S, D), (B|1, 1, S) -> a cache with room for `capacity` target positions"""
        plain = self.decoder.start(memory, memory_mask, capacity=capacity)
        memories = [(m.keys.flatten(0, 1).mT.contiguous(), m.values.flatten(0, 1)) for m in plain.memories]
        heads, width = self.blocks[0].heads, self.decoder.width
        hidden = None
        if plain.memory_mask is not None:
            hidden = torch.zeros_like(plain.memory_mask, dtype=memory.dtype)
            hidden = hidden.masked_fill(~plain.memory_mask, -math.inf).repeat_interleave(heads, 0)
        cache = LeanCache(memories, hidden, len(memory))
        shape = (2, len(memory) * heads, capacity, width // heads)
        cache.decoded = [memory.new_empty(shape) for _ in self.blocks]
        return cache

    @torch.no_grad()
    def step(self, x: Tensor, cache: LeanCache) -> Tensor:
        """(B, D) -> (B, D)

        The next position of each target; the cache then holds it too.
        """
        if cache.length == cache.decoded[0].shape[2]:
            raise wrong("cache", f"of {cache.length} positions", f"at least {cache.length + 1} for this step")
        for number, block in enumerate(self.blocks):
            x = block.step(x, cache, number)
        cache.length += 1
        return x if self.norm is None else self.norm(x)


class _Norm:
    def __init__(self, norm: nn.LayerNorm) -> None:
        self.shape, self.weight, self.bias, self.epsilon = (
            norm.normalized_shape,
            norm.weight.clone(),
            norm.bias.clone(),
            norm.eps,
        )

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.epsilon)


class _Linear:
    """Several layers that read the same, side by side."""

    def __init__(self, *layers: nn.Linear, scale: float = 1.0) -> None:
        """`scale` is that of the first."""
        factors = [scale] + [1.0] * (len(layers) - 1)
        weights = [layer.weight * factor for layer, factor in zip(layers, factors, strict=True)]
        self.matrix = torch.cat(weights).t().contiguous()
        bias = [
            (torch.zeros(len(layer.weight)) if layer.bias is None else layer.bias) * factor
            for layer, factor in zip(layers, factors, strict=True)
        ]
        self.bias = torch.cat(bias)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.matrix)


class _Block:
    def __init__(self, block: DecoderBlock) -> None:
        own, cross = block.self_attention, block.cross_attention
        self.heads, self.pre = own.heads, isinstance(block.self_residual, PreNorm)
        self.norms = [
            _Norm(residual.norm)
            for residual in (block.self_residual, block.cross_residual, block.feedforward_residual)
        ]
        self.query_key_value = _Linear(own.query, own.key, own.value, scale=_scale(own))
        self.own_output = _Linear(own.output)
        self.cross_query = _Linear(cross.query, scale=_scale(cross))
        self.cross_output = _Linear(cross.output)
        self.expand, self.contract = _Linear(block.feedforward.expand), _Linear(block.feedforward.contract)
        self.activation = block.feedforward.activation

    def step(self, x: Tensor, cache: LeanCache, number: int) -> Tensor:
        """(B, D) -> (B, D)"""
        if self.pre:
            x = x + self._own(self.norms[0](x), cache, number)
            x = x + self._cross(self.norms[1](x), cache, number)
            return x + self._feedforward(self.norms[2](x))
        x = self.norms[0](x + self._own(x, cache, number))
        x = self.norms[1](x + self._cross(x, cache, number))
        return self.norms[2](x + self._feedforward(x))

    def _own(self, x: Tensor, cache: LeanCache, number: int) -> Tensor:
        end = cache.length + 1
        q, k, v = self.query_key_value(x).view(len(x), 3, self.heads, -1).unbind(1)
        keys, values = cache.decoded[number]
        keys[:, cache.length] = k.reshape(keys.shape[0], -1)
        values[:, cache.length] = v.reshape(keys.shape[0], -1)
        weights = torch.bmm(q.reshape(len(keys), 1, -1), keys[:, :end].mT).softmax(-1)
        return self.own_output(torch.bmm(weights, values[:, :end]).view(x.shape))

    def _cross(self, x: Tensor, cache: LeanCache, number: int) -> Tensor:
        keys, values = cache.memories[number]
        q = self.cross_query(x).view(len(keys), 1, -1)
        scores = torch.bmm(q, keys) if cache.hidden is None else torch.baddbmm(cache.hidden, q, keys)
        return self.cross_output(torch.bmm(scores.softmax(-1), values).view(x.shape))

    def _feedforward(self, x: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x)))


def _scale(attention: MultiHeadAttention) -> float:
    return math.sqrt(attention.heads / attention.width)
