"""Keys and values of earlier positions. The caller holds them and passes them to the next call."""

from typing import NamedTuple

from torch import Tensor

from limelight.errors import wrong
from limelight.nn.validation import check_batch, check_size


class KeyValues(NamedTuple):
    """The projected keys and values of a memory; attention accepts them instead of the memory."""

    keys: Tensor
    values: Tensor

    def reordered(self, index: Tensor) -> "KeyValues":
        """The rows of the batch with the indices `index` (R), in that order."""
        return KeyValues(self.keys.index_select(0, index), self.values.index_select(0, index))


class Cache:
    """A buffer for the keys and values of up to `capacity` positions of one self-attention.

    For inference only: it is written in place, so gradients cannot pass through it.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = check_size("capacity", capacity)
        self.length = 0
        self._buffer: KeyValues | None = None  # (B, H, capacity, K), allocated by the first `append`

    def append(self, new: KeyValues) -> KeyValues:
        """(B, H, T, K), (B, H, T, K) -> (B, H, S, K), (B, H, S, K)

        Adds the keys and values of T positions, and returns those of all S positions so far as views.
        """
        end = self.length + new.keys.shape[2]
        if end > self.capacity:
            raise wrong("cache", f"of {self.capacity} positions", f"at least {end} for this step")
        if self._buffer is None:
            self._buffer = KeyValues(*(_buffer(new_x, self.capacity) for new_x in new))
        check_batch("queries", new.keys, len(self._buffer.keys), "the cache")
        for buffer, new_x in zip(self._buffer, new, strict=True):
            buffer[:, :, self.length : end] = new_x
        self.length = end
        return self.used

    def reorder(self, index: Tensor) -> None:
        """Keeps the rows of the batch with the indices `index` (R), in that order; it may repeat."""
        if self._buffer is None:
            return
        kept = self.used.reordered(index)
        if len(index) != len(self._buffer.keys):
            self._buffer = KeyValues(*(_buffer(x, self.capacity) for x in kept))
        for buffer, x in zip(self._buffer, kept, strict=True):
            buffer[:, :, : self.length] = x

    @property
    def used(self) -> KeyValues:
        """The keys and values of all positions so far, as views."""
        assert self._buffer is not None
        keys, values = self._buffer
        return KeyValues(keys[:, :, : self.length], values[:, :, : self.length])


class CausalCache:
    """The state of a decoder-only stack between two steps: one cache per block."""

    def __init__(self, depth: int, capacity: int) -> None:
        self.blocks = [Cache(capacity) for _ in range(check_size("depth", depth))]

    @property
    def length(self) -> int:
        """The number of positions so far, which is also the position of the next token."""
        return self.blocks[0].length

    def reorder(self, index: Tensor) -> None:
        """Keeps the sequences with the indices `index` (R), in that order."""
        for cache in self.blocks:
            cache.reorder(index)


class DecoderCache:
    """The state of a decoder between two steps: the memory, projected once per block, its mask, and one
    cache of decoded positions per block."""

    def __init__(self, memories: list[KeyValues], memory_mask: Tensor | None, capacity: int) -> None:
        self.memories = memories
        self.memory_mask = memory_mask
        self.decoded = [Cache(capacity) for _ in memories]

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return len(self.memories[0].keys)

    @property
    def length(self) -> int:
        """The number of decoded positions, which is also the position of the next token."""
        return self.decoded[0].length

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keeps the sequences with the indices `index` (R), in that order: surviving beams, unfinished ones.

        Without `sources`, each row keeps its present source, like beams of one sentence.
        """
        if sources:
            self.memories = [memory.reordered(index) for memory in self.memories]
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask.index_select(0, index)
        for cache in self.decoded:
            cache.reorder(index)


def _buffer(like: Tensor, capacity: int) -> Tensor:
    batch, heads, _, width = like.shape
    return like.new_empty(batch, heads, capacity, width)
