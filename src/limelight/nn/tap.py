"""Where attention weights can be captured."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from torch import Tensor, nn

Watcher = Callable[[Tensor], None]
Edit = Callable[[Tensor], Tensor]
Role = Literal["self", "cross", "pooling"]


class Tap(nn.Module):
    """Passes attention weights on to its watchers, and edits them; without either, no weights are computed.

    A tap is a module so that it has a name: `decoder.blocks.0.cross_attention.weights`. Its role is "self"
    where a sequence attends to itself, "cross" where it attends to a memory, and "pooling" where one learned
    query attends to a whole sequence.
    """

    def __init__(self, role: Role = "self") -> None:
        super().__init__()
        self.role: Role = role
        self._watchers: list[Watcher] = []
        self._edits: list[Edit] = []
        self._reuse: list[Tensor] = []

    @property
    def watched(self) -> bool:
        """Whether the weights are needed."""
        return bool(self._watchers or self._edits)

    @property
    def edited(self) -> bool:
        """Whether the weights are changed."""
        return bool(self._edits)

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a watched model is not watched."""
        return self.__dict__ | {"_watchers": [], "_edits": [], "_reuse": []}

    @contextmanager
    def watching(self, watcher: Watcher, reuse: Sequence[Tensor] = ()) -> Iterator[None]:
        """Call `watcher` with the weights (B, H, T, S) of each pass, as long as the context is open.

        The weights may be written into the tensors of `reuse`, those of the first pass into the first.
        """
        self._watchers.append(watcher)
        self._reuse = list(reuse)
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            self._reuse = []

    @contextmanager
    def editing(self, edit: Edit) -> Iterator[None]:
        """Replace the weights (B, H, T, S) of each pass by those that `edit` returns for them."""
        self._edits.append(edit)
        _edited.append(self)
        try:
            yield
        finally:
            self._edits.remove(edit)
            _edited.remove(self)

    def buffer(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """(B, H, T, K), (B, H, S, K) -> (B, H, T, S), a tensor to write their weights into; or None"""
        if not self._reuse:
            return None
        buffer = self._reuse.pop(0)
        wanted = ((*queries.shape[:-1], keys.shape[-2]), queries.dtype, queries.device)
        return buffer if (tuple(buffer.shape), buffer.dtype, buffer.device) == wanted else None

    def forward(self, weights: Tensor) -> Tensor:
        """(B, H, T, S) -> (B, H, T, S)"""
        for edit in self._edits:
            weights = edit(weights)
        for watcher in self._watchers:
            watcher(weights)
        return weights


_edited: list[Tap] = []  # the taps whose weights are changed at the moment


def is_edited(model: nn.Module) -> bool:
    """Whether any attention weights of the model are changed: fast copies of its weights must not be used."""
    return bool(_edited) and any(part is tap for part in model.modules() for tap in _edited)
