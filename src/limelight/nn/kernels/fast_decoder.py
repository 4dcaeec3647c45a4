"""A decoder for generation: the computation of `Decoder.step`, arranged for a few rows at a time."""

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
    """Several linear layers with the same input as one; the first is multiplied by `scale`."""

    def __init__(self, *layers: nn.Linear, scale: float = 1.0) -> None:
        weights, biases = [], []
        for number, layer in enumerate(layers):
            bias = layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias
            weights.append(layer.weight * (scale if number == 0 else 1.0))
            biases.append(bias * (scale if number == 0 else 1.0))
        self.matrix, self.bias = torch.cat(weights).t().contiguous(), torch.cat(biases)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.matrix)


class SeveralSources:
    """Cross-attention to several sources: keys (G, K, S) and values (G, S, K), where G is sources × heads.

    Rows of the batch with the same source, such as beams, are adjacent and share it. `mask_bias` (G, 1, S) is
    -inf at padding; None if there is no padding.
    """

    def __init__(
        self,
        query: _Linear,
        output: _Linear,
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

    def __init__(self, query: _Linear, output: _Linear, keys: Tensor, values: Tensor) -> None:
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


class FastCache:
    """Like `DecoderCache`: the memories, and one buffer per block for `capacity` decoded positions."""

    def __init__(
        self, memories: list[SeveralSources | OneSource], buffers: list[Tensor], batch: int, heads: int
    ) -> None:
        self.memories, self.heads = memories, heads
        # One per block, (capacity, 2, B, D), for keys and values: the part in use is contiguous.
        self.buffers = buffers
        self.batch, self.length = batch, 0
        self.rows = 1  # adjacent rows that share a source
        self._spare: Tensor | None = None  # one more buffer, the target of the next reordering

    def append(self, block: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 2, D) -> (G, K, T), (G, T, K)

        Adds the keys and values of one position, and returns those of all positions so far.
        """
        buffer = self.buffers[block]
        buffer.select(0, self.length).copy_(keys_values.transpose(0, 1))
        past_T2GK = buffer.narrow(0, 0, self.length + 1)
        past_T2GK = past_T2GK.view(self.length + 1, 2, self.batch * self.heads, -1)
        return past_T2GK.select(1, 0).permute(1, 2, 0), past_T2GK.select(1, 1).transpose(0, 1)

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keeps the rows with the indices `index` (R), in that order.

        Without `sources`, each row keeps its present source, like beams of one sentence.
        """
        if sources:
            owners, counts = (index // self.rows).unique_consecutive(return_counts=True)
            even = bool((counts == counts[0]).all())
            owners = owners if even else index // self.rows
            self.rows = int(counts[0]) if even else 1
            self.memories = [memory.reordered(owners) for memory in self.memories]
        if len(index) != self.batch:
            self._spare = None
        starts = torch.arange(0, 2 * self.length * self.batch, self.batch, device=index.device)
        rows = (starts.unsqueeze(1) + index).flatten()
        for block, buffer in enumerate(self.buffers):
            spare = self._spare
            if spare is None:
                spare = buffer.new_empty(*buffer.shape[:2], len(index), buffer.shape[3])
            torch.index_select(buffer.flatten(0, 2), 0, rows, out=spare.flatten(0, 2)[: len(rows)])
            self.buffers[block] = spare
            self._spare = buffer if len(index) == self.batch else None
        self.batch = len(index)


class FastDecoder:
    """The steps of a decoder, without dropout and without taps, computed with copies of its weights.

    With one row, the time of a step goes into function calls and reading weights. Here a block needs about
    twenty calls, and matrices are stored transposed, in the order in which they are read. A step with one row
    takes half the time of `Decoder.step`; a step with sixty-four rows takes slightly less.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.blocks = [_Block(block) for block in cast(Iterable[DecoderBlock], decoder.blocks)]
        self.norm = _Norm(decoder.norm) if isinstance(decoder.norm, nn.LayerNorm) else None

    @torch.no_grad()
    def start(self, memory: Tensor, memory_mask: Tensor | None = None, *, capacity: int) -> FastCache:
        """(B, S, D), (B|1, 1, S) -> a cache for `capacity` target positions

        Projects the memory once for all steps.
        """
        started = self.decoder.start(memory, memory_mask, capacity=capacity)
        batch, heads, width = len(memory), self.blocks[0].heads, self.decoder.width
        mask_bias = None
        if started.memory_mask is not None:
            mask_bias = torch.zeros_like(started.memory_mask, dtype=memory.dtype)
            mask_bias = mask_bias.masked_fill(~started.memory_mask, -math.inf).repeat_interleave(heads, 0)
        memories = [
            block.memory(projected, mask_bias)
            for block, projected in zip(self.blocks, started.memories, strict=True)
        ]
        buffers = [memory.new_empty(capacity, 2, batch, width) for _ in self.blocks]
        return FastCache(memories, buffers, batch, heads)

    @torch.no_grad()
    def step(self, x: Tensor, cache: FastCache) -> Tensor:
        """(B, D) -> (B, D)

        The next position of each target; it is added to the cache.
        """
        if cache.length == len(cache.buffers[0]):
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
        self.self_output = _Linear(own.output)
        self.cross_query = _Linear(cross.query, scale=_scale(cross))
        self.cross_output = _Linear(cross.output)
        self.expand, self.contract = _Linear(block.feedforward.expand), _Linear(block.feedforward.contract)
        self.activation = block.feedforward.activation

    def step(self, x: Tensor, cache: FastCache, number: int) -> Tensor:
        """(B, D) -> (B, D)"""
        if self.pre:
            x = x + self._self_attention(self.norms[0](x), cache, number)
            x = x + cache.memories[number].attend(self.norms[1](x))
            return x + self._feedforward(self.norms[2](x))
        x = self.norms[0](x + self._self_attention(x, cache, number))
        x = self.norms[1](x + cache.memories[number].attend(x))
        return self.norms[2](x + self._feedforward(x))

    def _self_attention(self, x: Tensor, cache: FastCache, number: int) -> Tensor:
        """(B, D) -> (B, D)"""
        projected_B3D = self.query_key_value(x).view(len(x), 3, -1)
        k_GKT, v_GTK = cache.append(number, projected_B3D.narrow(1, 1, 2))
        q_G1K = projected_B3D.select(1, 0).reshape(len(k_GKT), 1, -1)
        weights_G1T = torch.bmm(q_G1K, k_GKT).softmax(-1)
        return self.self_output(torch.bmm(weights_G1T, v_GTK).view(x.shape))

    def memory(self, projected: KeyValues, mask_bias: Tensor | None) -> SeveralSources | OneSource:
        """(B, H, S, K), (B, H, S, K), (G, 1, S) -> cross-attention to this memory"""
        k_GKS, v_GSK = projected.keys.flatten(0, 1).mT.contiguous(), projected.values.flatten(0, 1)
        query, output = self.cross_query, self.cross_output
        # For a long source, the two merged matrices would be larger than those that they replace.
        short = self.heads * k_GKS.shape[2] <= 2 * len(query.matrix)
        if len(projected.keys) == 1 and mask_bias is None and short:
            return OneSource(query, output, k_GKS, v_GSK)
        return SeveralSources(query, output, k_GKS, v_GSK, mask_bias, self.heads)

    def _feedforward(self, x: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x)))


def _head_index(index: Tensor, heads: int) -> Tensor:
    """(R) -> (G)

    The indices of the heads of each row.
    """
    return (index.unsqueeze(1) * heads + torch.arange(heads, device=index.device)).flatten()


def _scale(attention: MultiHeadAttention) -> float:
    return math.sqrt(attention.heads / attention.width)
