"""The parts of a fast decoder: arranged for one position of a few rows, with copies of the weights.

With one row, the time of a step goes into function calls and reading weights. Here a block needs about twenty
calls, and matrices are stored transposed, in the order in which they are read.
"""

import math
from collections.abc import Sequence
from copy import copy
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.cache import KeyValues
from limelight.nn.feedforward import FeedForward, GatedFeedForward
from limelight.nn.kernels.linear import pack, times, times_packed
from limelight.nn.masks import causal_mask, window_mask
from limelight.nn.multihead import MultiHeadAttention
from limelight.nn.norms import RMSNorm
from limelight.nn.relative_positions import rotation_table


class FastLinear:
    """Several linear layers with the same input as one.

    The outputs of the first are multiplied by `scale`; then all outputs are put into this order, if one is
    given.
    """

    def __init__(self, *layers: nn.Linear, scale: float = 1.0, order: Tensor | None = None) -> None:
        weights = [layer.weight for layer in layers]
        bias = torch.cat([_bias(layer) for layer in layers])
        if scale != 1:
            weights[0] = weights[0] * scale
            bias[: len(weights[0])] *= scale
        weight = torch.cat(weights) if len(weights) > 1 else weights[0]
        if order is not None:
            weight, bias = weight[order], bias[order]
        self.matrix, self.bias = weight.t().contiguous(), bias
        self._packed: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, E)"""
        if self._packed is not None:
            return times_packed(x, self._packed, self.bias)
        return times(x, self.matrix, self.bias)

    def in_eight_bits(self) -> Self:
        """A copy for one row that computes with weights of eight bits."""
        other = copy(self)
        other._packed = pack(self.matrix)
        return other


def _bias(layer: nn.Linear) -> Tensor:
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias


class FastNorm:
    """A layer norm or an RMS norm."""

    def __init__(self, norm: nn.LayerNorm | RMSNorm) -> None:
        self.weight = norm.weight.clone()
        self.bias = norm.bias.clone() if isinstance(norm, nn.LayerNorm) else None
        self.epsilon = norm.eps if isinstance(norm, nn.LayerNorm) else norm.epsilon

    def __call__(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)"""
        if self.bias is not None:
            return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)
        return torch.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


class FastFeedForward:
    """A plain or gated feed-forward network; the two matrices of a gate are one."""

    def __init__(self, network: FeedForward | GatedFeedForward) -> None:
        self.gated = isinstance(network, GatedFeedForward)
        layers = (
            (network.gate, network.expand) if isinstance(network, GatedFeedForward) else (network.expand,)
        )
        self.expand, self.contract = FastLinear(*layers), FastLinear(network.contract)
        self.activation = network.activation

    def in_eight_bits(self) -> Self:
        """A copy for one row that computes with weights of eight bits."""
        other = copy(self)
        other.expand, other.contract = self.expand.in_eight_bits(), self.contract.in_eight_bits()
        return other

    def __call__(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)"""
        if not self.gated:
            return self.contract(self.activation(self.expand(x)))
        gate_BF, expanded_BF = self.expand(x).chunk(2, -1)
        return self.contract(self.activation(gate_BF) * expanded_BF)


class Memory(Protocol):
    """Cross-attention to a source that was projected before the first step."""

    def attend(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)"""

    def reordered(self, sources: Tensor) -> Self:
        """The sources with the indices `sources` (R), in that order."""


class FastCache:
    """The state between two steps: the memories, and one buffer per block for `capacity` positions."""

    def __init__(
        self,
        blocks: Sequence["FastSelfAttention"],
        batch: int,
        capacity: int,
        memories: Sequence[Memory] = (),
    ) -> None:
        self.memories = list(memories)
        # One per block, (capacity, 2, B, E), for keys and values: the part in use is contiguous.
        self.buffers = [block.buffer(batch, capacity) for block in blocks]
        self.rotations = blocks[0].rotations(capacity)
        self.batch, self.length = batch, 0
        self.rows = 1  # adjacent rows that share a source
        self._spare: Tensor | None = None  # one more buffer, the target of the next reordering

    @property
    def capacity(self) -> int:
        """The number of positions that fit."""
        return len(self.buffers[0])

    def check_space(self, count: int = 1) -> None:
        """Refuse a step for which there is no buffer."""
        end = self.length + count
        if end > self.capacity:
            raise wrong("cache", f"of {self.capacity} positions", f"at least {end} for this step")

    def append(self, block: int, keys_values: Tensor, heads: int) -> tuple[Tensor, Tensor]:
        """(TB, 2E) -> (G, K, S), (G, S, K)

        Adds the keys and values of T positions, and returns those of all S positions so far.
        """
        buffer, groups = self.buffers[block], self.batch * heads
        length = self.length + len(keys_values) // self.batch
        new = keys_values.view(-1, self.batch, 2, buffer.shape[3]).transpose(1, 2)
        buffer[self.length : length].copy_(new)
        width, step = buffer.shape[3] // heads, buffer.stride(0)
        k_GKS = buffer.as_strided((groups, width, length), (width, 1, step))
        return k_GKS, buffer.as_strided((groups, length, width), (width, step, 1), buffer.stride(1))

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


class FastSelfAttention:
    """Causal self-attention of one position per row, with its variants.

    The halves of rotary positions are stored interleaved, which changes no score: a rotation is then one
    product of complex numbers. With GQA, the queries of a group are rows of one product.
    """

    def __init__(self, attention: MultiHeadAttention) -> None:
        self.heads, self.key_value_heads = attention.heads, attention.key_value_heads
        self.width, self.size = attention.width, attention.width // attention.heads
        self.variant, self.alibi = attention.variant, attention.alibi
        scale = math.sqrt(1 / self.size)
        self._sizes = [self.width, 2 * self.key_value_heads * self.size]
        self.rotated = attention.rotary is not None
        order, rows = torch.arange(self.size), None
        if attention.rotary is not None and attention.rotary.pairing == "halves":
            order = order.view(2, -1).T.flatten()
            heads = self.heads + 2 * self.key_value_heads
            rows = torch.arange(heads * self.size).view(heads, -1)
            rows[: self.heads + self.key_value_heads] = rows[: self.heads + self.key_value_heads, order]
            rows = rows.flatten()
        self._order = order
        self.query_key_value = FastLinear(
            attention.query,
            attention.key,
            attention.value,
            scale=1.0 if attention.query_norm else scale,
            order=rows,
        )
        self.output = FastLinear(attention.output)
        self.norm: Tensor | None = None  # (H + h, K): the weights of the norms of queries and keys
        if attention.query_norm is not None and attention.key_norm is not None:
            query_HK = (attention.query_norm.weight * scale)[order].expand(self.heads, -1)
            key_hK = attention.key_norm.weight[order].expand(self.key_value_heads, -1)
            self.norm, self.epsilon = torch.cat((query_HK, key_hK)), attention.key_norm.epsilon

    def buffer(self, batch: int, capacity: int) -> Tensor:
        """-> (T, 2, B, E), for the keys and values of `capacity` positions"""
        return self.output.matrix.new_empty(capacity, 2, batch, self.key_value_heads * self.size)

    def rotations(self, capacity: int) -> Tensor | None:
        """-> (T, 1, k), complex numbers of absolute value 1; None without rotary positions"""
        if not self.rotated:
            return None
        cosine, sine = rotation_table(
            capacity, self.size, frequencies=self.variant.rotation, device=self.output.matrix.device
        )
        return torch.complex(cosine, sine).unsqueeze(1)

    def fill(self, buffer: Tensor, past: KeyValues) -> None:
        """Copy keys and values (B, h, T, K) of earlier positions into a buffer."""
        length = past.keys.shape[2]
        for place, x in enumerate((past.keys[..., self._order], past.values)):
            buffer[:length, place] = x.permute(2, 0, 1, 3).flatten(2)

    def in_eight_bits(self) -> Self:
        """A copy for one row that computes with weights of eight bits."""
        other = copy(self)
        other.query_key_value = self.query_key_value.in_eight_bits()
        other.output = self.output.in_eight_bits()
        return other

    def step(self, x: Tensor, cache: FastCache, number: int) -> Tensor:
        """(N, D) -> (N, D)

        The next position of each row, or the next N positions of the only row, of the block with this number;
        they are added to the cache.
        """
        count = len(x) // cache.batch
        projected_NE = self.query_key_value(x)
        if self.norm is not None or cache.rotations is not None:
            self._place(projected_NE, cache, count)
        queries_ND, keys_values = projected_NE.split_with_sizes(self._sizes, 1)
        k_GKS, v_GSK = cache.append(number, keys_values, self.key_value_heads)
        if count == 1:
            scores_GRS = torch.bmm(queries_ND.reshape(len(k_GKS), -1, self.size), k_GKS)
        else:  # the queries of all positions are rows of one product
            q_GRTK = queries_ND.view(count, len(k_GKS), -1, self.size).permute(1, 2, 0, 3)
            scores_GRS = torch.bmm(q_GRTK.flatten(1, 2), k_GKS)
        if count > 1 or self.alibi is not None or self.variant.window:
            self._add_bias(scores_GRS, cache.length, count)
        mixed_GRK = torch.bmm(scores_GRS.softmax(-1), v_GSK)
        if count > 1:
            mixed_GRK = mixed_GRK.view(q_GRTK.shape).permute(2, 0, 1, 3).contiguous()
        return self.output(mixed_GRK.view(x.shape))

    def _place(self, projected: Tensor, cache: FastCache, count: int) -> None:
        """(N, E) -> the norms and rotations of queries and keys, in place"""
        heads = self.heads + self.key_value_heads
        heads_NHK = projected.narrow(1, 0, heads * self.size).unflatten(1, (heads, self.size))
        if self.norm is not None:
            root_NH1 = heads_NHK.square().mean(-1, keepdim=True).add_(self.epsilon).rsqrt_()
            heads_NHK.mul_(root_NH1).mul_(self.norm)
        if cache.rotations is not None:
            rotations_T1k = cache.rotations[cache.length : cache.length + count]
            torch.view_as_complex(heads_NHK.unflatten(2, (-1, 2))).mul_(rotations_T1k)

    def _add_bias(self, scores: Tensor, past: int, count: int) -> None:
        """(G, R, S) -> the biases of ALiBi, of the window and of causality, in place"""
        size = past + count
        if self.alibi is not None:
            bias_RS = self.alibi(count, past).view(self.key_value_heads, -1, size)
            scores += bias_RS.repeat(len(scores) // self.key_value_heads, 1, 1)
        window = self.variant.window
        masks = list[Tensor]()
        if count > 1:
            masks.append(causal_mask(count, past, device=scores.device))
        if window and size > window:
            masks.append(window_mask(count, window, past, sinks=self.variant.sinks, device=scores.device))
        for allowed_1TS in masks:
            scores.view(-1, count, size).masked_fill_(~allowed_1TS, -math.inf)
