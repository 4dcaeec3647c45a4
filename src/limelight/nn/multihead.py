"""Multi-head attention: self-attention, or attention to a memory."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.attention import attend, attention_weights
from limelight.nn.cache import Cache, KeyValues
from limelight.nn.dropout import dropout as drop
from limelight.nn.kernels.linear import Linear
from limelight.nn.kernels.packed_attention import attend_packed, supports
from limelight.nn.kernels.packing import Packing, hide_padding
from limelight.nn.masks import hide_not_finite, window_mask
from limelight.nn.norms import RMSNorm
from limelight.nn.relative_positions import STANDARD, Alibi, Frequencies, Rotary
from limelight.nn.tap import Role, Tap
from limelight.nn.validation import check_axes, check_batch, check_dropout, check_mask, check_size

POSITIONS = ("none", "rotary", "rotary-interleaved", "alibi")


@dataclass(frozen=True)
class AttentionVariant:
    """What has changed in attention since 2017; the defaults are those of the paper.

    - `key_value_heads`: so many heads of keys and values, each shared by a group of query heads
      (grouped-query attention, Ainslie et al. 2023; 1 is multi-query attention, Shazeer 2019); None: one per
      query head.
    - `positions`: "none"; "rotary", which pairs the halves of a head; "rotary-interleaved"; or "alibi".
    - `query_key_norm`: queries and keys of each head pass an RMS norm (Henry et al. 2020).
    - `rotation`: the frequencies of rotary positions.
    - `window`: a position attends only to positions that are less than this far away (Beltagy et al. 2020),
      and to the first `sinks` positions (Xiao et al. 2024); 0: to all.
    """

    key_value_heads: int | None = None
    positions: str = "none"
    query_key_norm: bool = False
    window: int = 0
    sinks: int = 0
    rotation: Frequencies = STANDARD

    @property
    def of_memory(self) -> "AttentionVariant":
        """The variant for attention to a memory, whose positions cannot be compared with those of queries."""
        return AttentionVariant(self.key_value_heads, query_key_norm=self.query_key_norm)


PLAIN = AttentionVariant()


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_H) W_o, where head_h = attention(X W_q, M W_k, M W_v) on its own K columns
    (Vaswani et al. 2017, section 3.2.2).

    X are the queries, M is the memory: X itself in self-attention.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        memory_width: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
        role: Role = "self",
        variant: AttentionVariant = PLAIN,
    ) -> None:
        """`output_bias` is for W_o alone; None means the same as `bias`."""
        super().__init__()
        if check_size("width", width) % check_size("heads", heads):
            raise wrong("heads", heads, f"a divisor of width={width}")
        memory_width = width if memory_width is None else check_size("memory_width", memory_width)
        self.width, self.heads, self.memory_width = width, heads, memory_width
        self.dropout, self.variant = check_dropout(dropout), variant
        size = width // heads
        self.key_value_heads = _check_key_value_heads(variant.key_value_heads, heads)
        self.query = Linear(width, width, bias=bias)
        self.key = Linear(memory_width, self.key_value_heads * size, bias=bias)
        self.value = Linear(memory_width, self.key_value_heads * size, bias=bias)
        self.output = Linear(width, width, bias=bias if output_bias is None else output_bias)
        self.weights = Tap(role)
        self.query_norm = RMSNorm(size) if variant.query_key_norm else None
        self.key_norm = RMSNorm(size) if variant.query_key_norm else None
        self.rotary, self.alibi = _positions(variant, heads, size)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        queries: Tensor,
        memory: Tensor | KeyValues | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        cache: Cache | None = None,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, M), (B|1, T|1, S) -> (B, T, D)

        Self-attention without a `memory`, which may also be the result of `project`. With a `cache`,
        self-attention continues after the positions in the cache. With a `packing`, the queries and the
        result are its (N, D) real tokens; `memory_packing` is the same for the memory. The padding of packed
        tokens is hidden unless a mask is given. A query that may attend to nothing gives the output bias.
        """
        queries, memory, memory_packing = self._inputs(queries, memory, mask, cache, packing, memory_packing)
        packings = self._packings(packing, memory_packing, causal)
        if packings and isinstance(memory, Tensor) and mask is None and cache is None:
            return self.output(self._attend_packed(queries, memory, *packings, causal))
        start = cache.length if cache else 0
        projected = memory if isinstance(memory, KeyValues) else self.project(memory, memory_packing, start)
        q_BHTK = self._place(self._split(self.query(queries), packing), self.query_norm, start)
        keys, values = projected if cache is None else cache.append(projected)
        watched = self.weights.watched
        mask = hide_padding(mask, keys.shape[2], packing, memory_packing, causal=causal, watched=watched)
        mask = self._in_window(mask, q_BHTK.shape[2], keys)
        mixed_BHTK = self._attend(q_BHTK, keys, values, mask, causal)
        return self.output(self._concatenate(mixed_BHTK, packing))

    def extra_repr(self) -> str:
        """The sizes, for `print(module)`."""
        return f"width={self.width}, heads={self.heads}, dropout={self.dropout}"

    def project(self, memory: Tensor, packing: Packing | None = None, start: int = 0) -> KeyValues:
        """(B, S, M) -> (B, h, S, K), (B, h, S, K)

        The keys and values of a memory, for a memory that is attended to more than once, with one head per
        key–value head. `start` is the position of its first token.
        """
        check_axes("memory", memory, "(N, M)" if packing else "(B, S, M)", self.memory_width)
        k_BhSK = self._place(self._split(self.key(memory), packing), self.key_norm, start)
        return KeyValues(k_BhSK, self._split(self.value(memory), packing))

    def _place(self, heads: Tensor, norm: RMSNorm | None, start: int) -> Tensor:
        """(B, H, T, K) -> (B, H, T, K)

        Queries or keys with their norm and their rotary positions.
        """
        heads = heads if norm is None else norm(heads).to(heads.dtype)  # autocast: float32
        return heads if self.rotary is None else self.rotary(heads, start)

    def _in_window(self, mask: Tensor | None, length: int, keys: Tensor) -> Tensor | None:
        """(B|1, T|1, S) -> (B|1, T|1, S)

        The mask combined with that of the window.
        """
        size, window = keys.shape[2], self.variant.window
        if not window or (not torch.compiler.is_exporting() and size <= window):
            return mask
        near_1TS = window_mask(length, window, size - length, sinks=self.variant.sinks, device=keys.device)
        return near_1TS if mask is None else mask & near_1TS

    def _inputs(
        self,
        queries: Tensor,
        memory: Tensor | KeyValues | None,
        mask: Tensor | None,
        cache: Cache | None,
        packing: Packing | None,
        memory_packing: Packing | None,
    ) -> tuple[Tensor, Tensor | KeyValues, Packing | None]:
        """Queries, memory and its packing, validated. The memory of self-attention is the queries."""
        check_axes("queries", queries, "(N, D)" if packing else "(B, T, D)", self.width)
        batch, length = (packing.batch, packing.length) if packing else queries.shape[:2]
        source: Tensor | KeyValues
        if memory is None:
            source, memory_packing = queries, packing
        elif cache is None:
            source = memory
        else:
            raise wrong("memory", "given with a cache", "a cache of self-attention; see `project`")
        if isinstance(source, KeyValues):
            check_batch("memory", source.keys, batch, "the queries")
            size = source.keys.shape[2]
        elif memory_packing:
            check_axes("memory", source, "(N, M)", self.memory_width)
            check_batch("memory", memory_packing.mask, batch, "the queries")
            size = memory_packing.length
        else:
            check_axes("memory", source, "(B, S, M)", self.memory_width)
            check_batch("memory", source, batch, "the queries")
            size = source.shape[1]
        _check_mask(mask, (batch, length, (cache.length if cache else 0) + size))
        if isinstance(source, Tensor) and memory_packing is None and cache is None:
            source = hide_not_finite(source, mask)
            queries = source if memory is None else queries
        return queries, source, memory_packing

    def _split(self, x: Tensor, packing: Packing | None) -> Tensor:
        """(B, T, D) -> (B, H, T, K)"""
        x_BTD = packing.pad(x) if packing else x
        return x_BTD.unflatten(2, (-1, self.width // self.heads)).transpose(1, 2)

    def _concatenate(self, heads: Tensor, packing: Packing | None) -> Tensor:
        """(B, H, T, K) -> (B, T, D)"""
        heads_BTD = heads.transpose(1, 2).flatten(2)
        return packing.take(heads_BTD) if packing else heads_BTD

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        """(B, H, T, K), (B, h, S, K), (B, h, S, K), (B|1, T|1, S) -> (B, H, T, K)

        Fused unless watched.
        """
        mask_B1TS = None if mask is None else mask.unsqueeze(1)
        dropout = self._dropout_now
        keys, values = self._share(keys), self._share(values)
        length, size = queries.shape[2], keys.shape[2]
        bias = None if self.alibi is None else self.alibi(length, size - length)
        if not self.weights.watched:
            return attend(queries, keys, values, mask_B1TS, causal=causal, bias=bias, dropout=dropout)
        buffer = self.weights.buffer(queries, keys)
        weights_BHTS = attention_weights(queries, keys, mask_B1TS, causal=causal, bias=bias, into=buffer)
        return drop(self.weights(weights_BHTS), dropout) @ hide_not_finite(values, mask_B1TS)

    def _share(self, x: Tensor) -> Tensor:
        """(B, h, S, K) -> (B, H, S, K)

        Repeats each head of keys or values for its group of query heads.
        """
        groups = self.heads // self.key_value_heads
        return x if groups == 1 else x.repeat_interleave(groups, 1)

    @property
    def _dropout_now(self) -> float:
        return self.dropout if self.training else 0.0

    def _packings(
        self, packing: Packing | None, memory_packing: Packing | None, causal: bool
    ) -> tuple[Packing, Packing] | None:
        """Both packings if the packed kernel can be used without a mask; None if it cannot."""
        if packing is None or memory_packing is None or self.weights.watched or self.variant != PLAIN:
            return None
        supported = supports(packing, memory_packing, causal=causal, dropout=self._dropout_now)
        return (packing, memory_packing) if supported else None

    def _attend_packed(
        self, queries: Tensor, memory: Tensor, packing: Packing, memory_packing: Packing, causal: bool
    ) -> Tensor:
        """(N, D), (U, M) -> (N, D)"""
        q_ND, k_UD, v_UD = self.query(queries), self.key(memory), self.value(memory)
        return attend_packed(
            q_ND, k_UD, v_UD, packing, memory_packing, self.heads, causal=causal, dropout=self._dropout_now
        )


def _check_mask(mask: Tensor | None, shape: tuple[int, int, int]) -> None:
    if mask is None:
        return
    if mask.is_floating_point():  # called like torch.nn's module: attention(x, x, x)
        allowed = "torch.bool, True where it may attend; keys and values are one argument, memory"
        raise wrong("mask", f"of type {mask.dtype}", allowed)
    check_mask("mask", mask, shape, "(B, T, S)")


def _check_key_value_heads(value: int | None, heads: int) -> int:
    if value is None:
        return heads
    if heads % check_size("key_value_heads", value):
        raise wrong("key_value_heads", value, f"a divisor of heads={heads}")
    return value


def _positions(variant: AttentionVariant, heads: int, size: int) -> tuple[Rotary | None, Alibi | None]:
    kind = variant.positions
    if kind not in POSITIONS:
        raise wrong("positions", repr(kind), " or ".join(map(repr, POSITIONS)))
    if kind == "alibi":
        return None, Alibi(heads)
    if kind == "none":
        return None, None
    pairing = "interleaved" if kind == "rotary-interleaved" else "halves"
    return Rotary(size, pairing, variant.rotation), None
