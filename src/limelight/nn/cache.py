"""Keys and values of what was read and decoded already. The caller owns them and passes them back."""

from typing import NamedTuple

from torch import Tensor

from limelight.errors import wrong
from limelight.nn.validation import check_batch, check_size


class KeyValues(NamedTuple):
    """What an attention reads of its memory: projected once, then passed in the memory's place."""

    keys: Tensor
    values: Tensor

    def reordered(self, index: Tensor) -> "KeyValues":
        """The rows of the batch that `index` (R) names, in its order."""
        return KeyValues(self.keys.index_select(0, index), self.values.index_select(0, index))


class Cache:
    """Room for the keys and values of `capacity` positions of one self-attention, filled as they come.

    For inference: what is written in place cannot be differentiated through.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = check_size("capacity", capacity)
        self.length = 0
        self._room: KeyValues | None = None  # (B, H, capacity, K), made when the first keys arrive

    def append(self, new: KeyValues) -> KeyValues:
        """Keep the keys and values of T more positions; gives back all so far, as views of the room."""
        end = self.length + new.keys.shape[2]
        if end > self.capacity:
            raise wrong("cache", f"of {self.capacity} positions", f"at least {end} for this step")
        if self._room is None:
            self._room = KeyValues(*(_room(new_x, self.capacity) for new_x in new))
        check_batch("queries", new.keys, len(self._room.keys), "in the cache")
        for room, new_x in zip(self._room, new, strict=True):
            room[:, :, self.length : end] = new_x
        self.length = end
        return self._used()

    def reorder(self, index: Tensor) -> None:
        """Keep the rows of the batch that `index` (R) names, in its order; a row may stand twice."""
        if self._room is None:
            return
        kept = self._used().reordered(index)
        if len(index) != len(self._room.keys):
            self._room = KeyValues(*(_room(x, self.capacity) for x in kept))
        for room, x in zip(self._room, kept, strict=True):
            room[:, :, : self.length] = x

    def _used(self) -> KeyValues:
        assert self._room is not None
        keys, values = self._room
        return KeyValues(keys[:, :, : self.length], values[:, :, : self.length])


class DecoderCache:
    """All that a decoder needs beside the next token: the source, projected once per block, its mask,
    and what each block decoded already."""

    def __init__(self, memories: list[KeyValues], memory_mask: Tensor | None, capacity: int) -> None:
        self.memories = memories
        self.memory_mask = memory_mask
        self.decoded = [Cache(capacity) for _ in memories]

    @property
    def batch(self) -> int:
        return len(self.memories[0].keys)

    @property
    def length(self) -> int:
        """How many positions were decoded: the position of the next token."""
        return self.decoded[0].length

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keep the sequences that `index` (R) names, in its order: beams survive, finished ones leave.

        Without `sources`, each goes on with the source that its row had, as beams of one sentence do.
        """
        if sources:
            self.memories = [memory.reordered(index) for memory in self.memories]
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask.index_select(0, index)
        for cache in self.decoded:
            cache.reorder(index)


def _room(like: Tensor, capacity: int) -> Tensor:
    batch, heads, _, width = like.shape
    return like.new_empty(batch, heads, capacity, width)
