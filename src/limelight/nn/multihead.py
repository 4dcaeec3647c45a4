"""Multi-head attention, over the sequence itself or over a memory."""

from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.attention import attend, attention_weights
from limelight.nn.cache import Cache, KeyValues
from limelight.nn.dropout import dropout as drop
from limelight.nn.kernels.packed_attention import attend_packed, suits
from limelight.nn.kernels.packing import Packing
from limelight.nn.masks import hide_not_finite
from limelight.nn.tap import Role, Tap
from limelight.nn.validation import check_axes, check_batch, check_dropout, check_mask, check_size


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_H) W_o, where head_h = attention(X W_q, M W_k, M W_v) on its own K columns
    (Vaswani et al. 2017, section 3.2.2)."""

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

        Self-attention without `memory`. What `project` made may stand in the memory's place. With a
        `cache`, self-attention goes on from what the cache holds. With a `packing`, the queries and the
        result are its (N, D) real tokens; `memory_packing` says the same of the memory. What a packing
        knows as padding is hidden unless a mask says otherwise. A query that may attend to nothing
        mixes nothing: it comes out as the output bias.
        """
        check_axes("queries", queries, "(N, D)" if packing else "(B, T, D)", self.width)
        alone = memory is None
        if memory is None:
            memory, memory_packing = queries, packing
        elif cache is not None:
            raise wrong("memory", "given with a cache", "a cache of self-attention; see `project`")
        if isinstance(memory, Tensor) and packing and memory_packing and cache is None:
            hidden_alone = mask is None or mask is memory_packing.mask
            if hidden_alone and self._suits(packing, memory_packing, causal):
                return self.output(self._mix_packed(queries, memory, packing, memory_packing, causal))
        batch, length = (packing.batch, packing.length) if packing else queries.shape[:2]
        if isinstance(memory, KeyValues):
            check_batch("memory", memory.keys, batch, "the queries")
            self._check_mask(mask, (batch, length, memory.keys.shape[2]))
        else:
            if memory_packing is None:
                check_axes("memory", memory, "(B, S, M)", self.memory_width)
                check_batch("memory", memory, batch, "the queries")
            size = memory_packing.length if memory_packing else memory.shape[1]
            self._check_mask(mask, (batch, length, (cache.length if cache else 0) + size))
            if memory_packing is None and cache is None:
                memory = hide_not_finite(memory, mask)
                queries = memory if alone else queries
            memory = self.project(memory, memory_packing)
        q_BHTK = self._split(self.query(queries), packing)
        check_batch("memory", memory.keys, batch, "the queries")
        if cache is not None:
            memory = cache.append(memory)
        if mask is None and memory_packing:  # padding is hidden without being asked
            mask = memory_packing.mask
        if packing and self.weights.watched:  # a padded query is not there, so it looks at nothing
            real_BT1 = packing.mask.transpose(1, 2)
            mask = real_BT1.expand(-1, -1, memory.keys.shape[2]) if mask is None else mask & real_BT1
        elif causal and packing and mask is packing.mask and packing.trailing:
            mask = None  # the padding comes after every token that is taken
        mask_B1TS = None if mask is None else mask.unsqueeze(1)
        mixed_BTD = self._mix(q_BHTK, memory, mask_B1TS, causal).transpose(1, 2).flatten(2)
        return self.output(packing.take(mixed_BTD) if packing else mixed_BTD)

    def extra_repr(self) -> str:
        return f"width={self.width}, heads={self.heads}, dropout={self.dropout}"

    def project(self, memory: Tensor, packing: Packing | None = None) -> KeyValues:
        """(B, S, M) -> (B, H, S, K), (B, H, S, K)

        Keys and values of a memory, for when the same memory is attended to more than once.
        """
        check_axes("memory", memory, "(N, M)" if packing else "(B, S, M)", self.memory_width)
        return KeyValues(self._split(self.key(memory), packing), self._split(self.value(memory), packing))

    def _check_mask(self, mask: Tensor | None, shape: tuple[int, int, int]) -> None:
        if mask is None:
            return
        if mask.is_floating_point():  # torch.nn's habit: attention(x, x, x)
            allowed = "torch.bool, True where it may attend; keys and values are one argument, memory"
            raise wrong("mask", f"of type {mask.dtype}", allowed)
        check_mask("mask", mask, shape, "(B, T, S)")

    def _split(self, x: Tensor, packing: Packing | None) -> Tensor:
        """(B, T, D) -> (B, H, T, K)"""
        x_BTD = packing.pad(x) if packing else x
        batch, length, width = x_BTD.shape
        return x_BTD.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    @property
    def _dropped(self) -> float:
        return self.dropout if self.training else 0.0

    def _suits(self, packing: Packing, memory: Packing, causal: bool) -> bool:
        return not self.weights.watched and suits(packing, memory, causal=causal, dropout=self._dropped)

    def _mix_packed(
        self, queries: Tensor, memory: Tensor, packing: Packing, memory_packing: Packing, causal: bool
    ) -> Tensor:
        """(N, D), (M, M) -> (N, D)"""
        check_axes("memory", memory, "(N, M)", self.memory_width)
        q_ND, k_ND, v_ND = self.query(queries), self.key(memory), self.value(memory)
        return attend_packed(
            q_ND, k_ND, v_ND, packing, memory_packing, self.heads, causal=causal, dropout=self._dropped
        )

    def _mix(self, q_BHTK: Tensor, memory: KeyValues, mask: Tensor | None, causal: bool) -> Tensor:
        """(B, H, T, K), (B|1, 1, T|1, S) -> (B, H, T, K)

        Fused unless watched.
        """
        dropout = self._dropped
        if not self.weights.watched:
            return attend(q_BHTK, memory.keys, memory.values, mask, causal=causal, dropout=dropout)
        buffer = self.weights.buffer(q_BHTK, memory.keys)
        weights_BHTS = attention_weights(q_BHTK, memory.keys, mask, causal=causal, into=buffer)
        return drop(self.weights(weights_BHTS), dropout) @ hide_not_finite(memory.values, mask)
