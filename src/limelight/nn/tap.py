"""Where attention weights can be watched."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

Watcher = Callable[[Tensor], None]


class Tap(nn.Module):
    """Shows the weights that pass to whoever watches; with nobody watching, none pass.

    A tap is a module so that it has a name: `decoder.blocks.0.cross_attention.weights`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._watchers: list[Watcher] = []
        self._rooms: list[Tensor] = []

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a watched model is not watched."""
        return self.__dict__ | {"_watchers": [], "_rooms": []}

    @contextmanager
    def watching(self, watcher: Watcher, rooms: Sequence[Tensor] = ()) -> Iterator[None]:
        """Call `watcher` with each (B, H, T, S) that passes, as long as the context is open.

        What passes may be written into `rooms`, the first into the first.
        """
        self._watchers.append(watcher)
        self._rooms = list(rooms)
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            self._rooms = []

    def room(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """(B, H, T, K), (B, H, S, K) -> (B, H, T, S), at hand for their weights; or None"""
        if not self._rooms:
            return None
        room = self._rooms.pop(0)
        wanted = ((*queries.shape[:-1], keys.shape[-2]), queries.dtype, queries.device)
        return room if (tuple(room.shape), room.dtype, room.device) == wanted else None

    def forward(self, weights: Tensor) -> Tensor:
        """(B, H, T, S) -> (B, H, T, S)"""
        for watcher in self._watchers:
            watcher(weights)
        return weights
