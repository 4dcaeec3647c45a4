"""Multi-head attention: self-attention, or attention to a memory."""

from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.attention import attend, attention_weights
from limelight.nn.cache import Cache, KeyValues
from limelight.nn.dropout import dropout as drop
from limelight.nn.kernels.packed_attention import attend_packed, supports
from limelight.nn.kernels.packing import Packing, hide_padding
from limelight.nn.masks import hide_not_finite
from limelight.nn.tap import Role, Tap
from limelight.nn.validation import check_axes, check_batch, check_dropout, check_mask, check_size


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
        role: Role = "self",
    ) -> None:
        super().__init__()
        if check_size("width", width) % check_size("heads", heads):
            raise wrong("heads", heads, f"a divisor of width={width}")
        memory_width = width if memory_width is None else check_size("memory_width", memory_width)
        self.width, self.heads, self.memory_width = width, heads, memory_width
        self.dropout = check_dropout(dropout)
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(memory_width, width, bias=bias)
        self.value = nn.Linear(memory_width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.weights = Tap(role)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            if bias:
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
        projected = memory if isinstance(memory, KeyValues) else self.project(memory, memory_packing)
        q_BHTK = self._split(self.query(queries), packing)
        keys, values = projected if cache is None else cache.append(projected)
        watched = self.weights.watched
        mask = hide_padding(mask, keys.shape[2], packing, memory_packing, causal=causal, watched=watched)
        mixed_BHTK = self._attend(q_BHTK, keys, values, mask, causal)
        return self.output(self._concatenate(mixed_BHTK, packing))

    def extra_repr(self) -> str:
        """The sizes, for `print(module)`."""
        return f"width={self.width}, heads={self.heads}, dropout={self.dropout}"

    def project(self, memory: Tensor, packing: Packing | None = None) -> KeyValues:
        """(B, S, M) -> (B, H, S, K), (B, H, S, K)

        The keys and values of a memory, for a memory that is attended to more than once.
        """
        check_axes("memory", memory, "(N, M)" if packing else "(B, S, M)", self.memory_width)
        return KeyValues(self._split(self.key(memory), packing), self._split(self.value(memory), packing))

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
        batch, length, width = x_BTD.shape
        return x_BTD.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def _concatenate(self, heads: Tensor, packing: Packing | None) -> Tensor:
        """(B, H, T, K) -> (B, T, D)"""
        heads_BTD = heads.transpose(1, 2).flatten(2)
        return packing.take(heads_BTD) if packing else heads_BTD

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        """(B, H, T, K), (B, H, S, K), (B, H, S, K), (B|1, T|1, S) -> (B, H, T, K)

        Fused unless watched.
        """
        mask_B1TS = None if mask is None else mask.unsqueeze(1)
        dropout = self._dropout_now
        if not self.weights.watched:
            return attend(queries, keys, values, mask_B1TS, causal=causal, dropout=dropout)
        buffer = self.weights.buffer(queries, keys)
        weights_BHTS = attention_weights(queries, keys, mask_B1TS, causal=causal, into=buffer)
        return drop(self.weights(weights_BHTS), dropout) @ hide_not_finite(values, mask_B1TS)

    @property
    def _dropout_now(self) -> float:
        return self.dropout if self.training else 0.0

    def _packings(
        self, packing: Packing | None, memory_packing: Packing | None, causal: bool
    ) -> tuple[Packing, Packing] | None:
        """Both packings if the packed kernel can be used without a mask; None if it cannot."""
        if packing is None or memory_packing is None or self.weights.watched:
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
