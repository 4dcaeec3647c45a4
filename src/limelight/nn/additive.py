"""Additive attention, as in the first neural translation models with attention."""

from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.attention import additive, masked_softmax
from limelight.nn.masks import hide_not_finite
from limelight.nn.tap import Tap
from limelight.nn.validation import check_axes, check_batch, check_mask, check_size


class AdditiveAttention(nn.Module):
    """The mean of the memory, weighted by softmax(vᵀ tanh(W_q q + W_m m)) (Bahdanau et al. 2015)."""

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.query_width = check_size("query_width", query_width)
        self.memory_width = check_size("memory_width", memory_width)
        self.width = check_size("width", width)
        self.query = nn.Linear(query_width, width, bias=False)
        self.memory = nn.Linear(memory_width, width, bias=False)
        self.vector = nn.Linear(width, 1, bias=False)
        self.weights = Tap("cross")

    def forward(
        self,
        queries: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        *,
        keys: Tensor | None = None,
    ) -> Tensor:
        """(B, T, Q), (B, S, M), (B|1, T|1, S) -> (B, T, M)

        `keys` is the result of `project(memory)`, so that a decoder computes it once and not at every step.
        With `keys`, the memory must be finite, also at masked positions; without `keys`, the values at masked
        positions have no effect.
        """
        check_axes("queries", queries, "(B, T, Q)", self.query_width)
        check_axes("memory", memory, "(B, S, M)", self.memory_width)
        check_batch("memory", memory, len(queries), "the queries")
        if mask is not None:
            check_mask("mask", mask, (len(queries), queries.shape[1], memory.shape[1]), "(B, T, S)")
        memory = hide_not_finite(memory, mask) if keys is None else memory
        keys_BSA = self.project(memory) if keys is None else keys
        if keys_BSA.shape != (*memory.shape[:2], self.width):
            raise wrong(
                "keys", f"of shape {tuple(keys_BSA.shape)}", "the result of `project` for this memory"
            )
        weights_BTS = masked_softmax(self.score(queries, keys_BSA), mask)
        if self.weights.watched:
            weights_BTS = self.weights(weights_BTS.unsqueeze(1)).squeeze(1)  # one head
        return weights_BTS @ memory

    def project(self, memory: Tensor) -> Tensor:
        """(B, S, M) -> (B, S, A)

        The keys of a memory, W_m m.
        """
        check_axes("memory", memory, "(B, S, M)", self.memory_width)
        return self.memory(memory)

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, T, Q), (B, S, A) -> (B, T, S)

        The scores of queries and projected keys, before the softmax.
        """
        return additive(self.query(queries), keys, self.vector.weight[0])
