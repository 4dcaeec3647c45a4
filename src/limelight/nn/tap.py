"""Where attention weights can be watched."""

from collections.abc import Callable, Iterator
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

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a watched model is not watched."""
        return self.__dict__ | {"_watchers": []}

    @contextmanager
    def watching(self, watcher: Watcher) -> Iterator[None]:
        """Call `watcher` with each (B, H, T, S) that passes, as long as the context is open."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def forward(self, weights: Tensor) -> Tensor:
        """(B, H, T, S) -> (B, H, T, S)"""
        for watcher in self._watchers:
            watcher(weights)
        return weights
