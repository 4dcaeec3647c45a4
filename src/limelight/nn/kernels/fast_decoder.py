"""A decoder's step for writing: the mathematics of `Decoder.step`, laid out for a few rows at a time."""

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.blocks import DecoderBlock, PreNorm
from limelight.nn.cache import KeyValues
from limelight.nn.multihead import MultiHeadAttention
from limelight.nn.stacks import Decoder


class _Linear:
    """Several layers that read the same, side by side; `scale` is that of the first."""

    def __init__(self, *layers: nn.Linear, scale: float = 1.0) -> None:
        weights, biases = [], []
        for number, layer in enumerate(layers):
            bias = layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias
            weights.append(layer.weight * (scale if number == 0 else 1.0))
            biases.append(bias * (scale if number == 0 else 1.0))
        self.matrix, self.bias = torch.cat(weights).t().contiguous(), torch.cat(biases)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.matrix)


class Sources:
    """Cross-attention to several sources: keys (n, K, S) and values (n, S, K), n = sources · heads.

    The rows of a batch that read one source stand together and share it, as beams do. `hidden` (n, 1, S) is
    -inf where a source has no token; None where all have as many.
    """

    def __init__(
        self, query: _Linear, output: _Linear, keys: Tensor, values: Tensor, hidden: Tensor | None, heads: int
    ) -> None:
        self.query, self.output, self.heads = query, output, heads
        self.keys, self.values, self.hidden = keys, values, hidden

    def attend(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)"""
        sources = len(self.keys) // self.heads
        rows = len(x) // sources
        q_nrK = self.query(x).view(sources, rows, self.heads, -1).transpose(1, 2).flatten(0, 1)
        scores = torch.bmm(q_nrK, self.keys)
        if self.hidden is not None:
            scores += self.hidden
        mixed_nrK = torch.bmm(scores.softmax(-1), self.values)
        return self.output(mixed_nrK.view(sources, self.heads, rows, -1).transpose(1, 2).reshape(x.shape))

    def reordered(self, sources: Tensor) -> "Sources":
        index = _of_heads(sources, self.heads)
        hidden = None if self.hidden is None else self.hidden.index_select(0, index)
        keys, values = self.keys.index_select(0, index), self.values.index_select(0, index)
        return Sources(self.query, self.output, keys, values, hidden, self.heads)


class OneSource:
    """The same where all rows read one source: projections and source become two matrices, before any row.

    x W_q K_hᵀ is x times a matrix (D, S) of each head, and so is what comes after the weights.
    """

    def __init__(self, query: _Linear, output: _Linear, keys: Tensor, values: Tensor) -> None:
        """`keys` (H, K, S), `values` (H, S, K)"""
        self.heads, width = len(keys), len(query.matrix)
        by_head_HDK = query.matrix.view(width, self.heads, -1).transpose(0, 1)
        self.score = torch.bmm(by_head_HDK, keys).transpose(0, 1).reshape(width, -1)
        self.score_bias = torch.bmm(query.bias.view(self.heads, 1, -1), keys).flatten()
        self.mix = torch.bmm(values, output.matrix.view(self.heads, -1, width)).flatten(0, 1)
        self.mix_bias = output.bias

    def attend(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)"""
        scores_BHS = torch.addmm(self.score_bias, x, self.score).view(len(x), self.heads, -1)
        return torch.addmm(self.mix_bias, scores_BHS.softmax(-1).flatten(1), self.mix)

    def reordered(self, sources: Tensor) -> "OneSource":
        return self


class LeanCache:
    """As `DecoderCache`: the memories, and room for `capacity` positions that each block decoded."""

    def __init__(
        self, memories: list[Sources | OneSource], rooms: list[Tensor], batch: int, heads: int
    ) -> None:
        self.memories, self.heads = memories, heads
        self.rooms = rooms  # per block (capacity, 2, B, D), of keys and values: what is used stands together
        self.batch, self.rows, self.length = batch, 1, 0  # rows that share a source
        self._spare: Tensor | None = None  # one more room, to reorder into

    def append(self, block: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 2, D) -> (B·H, K, T), (B·H, T, K)

        Keep the keys and values of one more position; gives back all so far.
        """
        room = self.rooms[block]
        room.select(0, self.length).copy_(keys_values.transpose(0, 1))
        past = room.narrow(0, 0, self.length + 1).view(self.length + 1, 2, self.batch * self.heads, -1)
        return past.select(1, 0).permute(1, 2, 0), past.select(1, 1).transpose(0, 1)

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keep the sequences that `index` (R) names, in its order. Without `sources`, each goes on with the
        source that its row had, as beams of one sentence do."""
        if sources:
            owners, counts = (index // self.rows).unique_consecutive(return_counts=True)
            even = bool((counts == counts[0]).all())
            owners = owners if even else index // self.rows
            self.rows = int(counts[0]) if even else 1
            self.memories = [memory.reordered(owners) for memory in self.memories]
        if len(index) != self.batch:
            self._spare = None
        blocks = torch.arange(0, 2 * self.length * self.batch, self.batch, device=index.device)
        rows = (blocks.unsqueeze(1) + index).flatten()
        for block, room in enumerate(self.rooms):
            spare = self._spare
            if spare is None:
                spare = room.new_empty(*room.shape[:2], len(index), room.shape[3])
            torch.index_select(room.flatten(0, 2), 0, rows, out=spare.flatten(0, 2)[: len(rows)])
            self.rooms[block] = spare
            self._spare = room if len(index) == self.batch else None
        self.batch = len(index)


class LeanDecoder:
    """Copies a decoder's weights and computes what its `step` does, without dropout and without taps.

    At one row a step is nothing but calls and reading weights. Here a block is some twenty calls, and
    matrices lie transposed, as they are read: at one row it takes half the time, at sixty-four hardly less.
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
        batch, heads, width = len(memory), self.blocks[0].heads, self.decoder.width
        hidden = None
        if plain.memory_mask is not None:
            hidden = torch.zeros_like(plain.memory_mask, dtype=memory.dtype)
            hidden = hidden.masked_fill(~plain.memory_mask, -math.inf).repeat_interleave(heads, 0)
        memories = [
            block.memory(projected, hidden)
            for block, projected in zip(self.blocks, plain.memories, strict=True)
        ]
        rooms = [memory.new_empty(capacity, 2, batch, width) for _ in self.blocks]
        return LeanCache(memories, rooms, batch, heads)

    @torch.no_grad()
    def step(self, x: Tensor, cache: LeanCache) -> Tensor:
        """(B, D) -> (B, D)

        The next position of each target; the cache then holds it too.
        """
        if cache.length == len(cache.rooms[0]):
            raise wrong("cache", f"of {cache.length} positions", f"at least {cache.length + 1} for this step")
        for number, block in enumerate(self.blocks):
            x = block.step(x, cache, number)
        cache.length += 1
        return x if self.norm is None else self.norm(x)


class _Norm:
    def __init__(self, norm: nn.LayerNorm) -> None:
        self.weight, self.bias = norm.weight.clone(), norm.bias.clone()
        self.shape, self.epsilon = norm.normalized_shape, norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.epsilon)


class _Block:
    def __init__(self, block: DecoderBlock) -> None:
        own, cross = block.self_attention, block.cross_attention
        self.heads, self.pre = own.heads, isinstance(block.self_residual, PreNorm)
        residuals = (block.self_residual, block.cross_residual, block.feedforward_residual)
        self.norms = [_Norm(residual.norm) for residual in residuals]
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
            x = x + cache.memories[number].attend(self.norms[1](x))
            return x + self._feedforward(self.norms[2](x))
        x = self.norms[0](x + self._own(x, cache, number))
        x = self.norms[1](x + cache.memories[number].attend(x))
        return self.norms[2](x + self._feedforward(x))

    def _own(self, x: Tensor, cache: LeanCache, number: int) -> Tensor:
        projected = self.query_key_value(x).view(len(x), 3, -1)
        keys, values = cache.append(number, projected.narrow(1, 1, 2))
        weights = torch.bmm(projected.select(1, 0).reshape(len(keys), 1, -1), keys).softmax(-1)
        return self.own_output(torch.bmm(weights, values).view(x.shape))

    def memory(self, projected: KeyValues, hidden: Tensor | None) -> Sources | OneSource:
        """(B, H, S, K) twice, (B·H, 1, S)"""
        keys, values = projected.keys.flatten(0, 1).mT.contiguous(), projected.values.flatten(0, 1)
        query, output = self.cross_query, self.cross_output
        # Of a long source the two matrices would be larger than what they replace.
        if (
            len(projected.keys) == 1
            and hidden is None
            and self.heads * keys.shape[2] <= 2 * len(query.matrix)
        ):
            return OneSource(query, output, keys, values)
        return Sources(query, output, keys, values, hidden, self.heads)

    def _feedforward(self, x: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x)))


def _of_heads(index: Tensor, heads: int) -> Tensor:
    """(R) -> (R·H)"""
    return (index.unsqueeze(1) * heads + torch.arange(heads, device=index.device)).flatten()


def _scale(attention: MultiHeadAttention) -> float:
    return math.sqrt(attention.heads / attention.width)
