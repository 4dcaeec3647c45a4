"""Puts the attentions of a call together: the heads of one layer, and the steps of a recurrent decoder."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

import torch
from torch import Tensor

from limelight.nn.tap import Role

HEADS, QUERIES = 1, 2  # axes of weights (B, H, T, S)


@dataclass(frozen=True)
class Attention:
    """The weights of one attention: (B, H, T, S), before dropout.

    A recurrent decoder attends once per token: its passes are joined along the query axis.
    """

    name: str  # of the module: decoder.blocks.0.cross_attention
    role: Role
    weights: Tensor

    @property
    def causal(self) -> bool:
        """Whether no query attends to a later key, as far as these weights show."""
        length, size = self.weights.shape[-2:]
        return length > 1 and size >= length and not self.weights.triu(1 + size - length).any()


@dataclass
class _Collected:
    """One attention, which may have been computed in several pieces."""

    name: str
    role: Role
    origin: tuple[int, ...]  # the numbers of the tensors that queries and keys were computed from
    shape: torch.Size  # of the last piece
    pieces: list[Tensor]
    axis: int = HEADS  # along which they are joined
    count: int = 1


class Collector:
    """Keeps the attentions that were asked for: those of some layers, and some heads of each."""

    def __init__(self, layers: Iterable[int | str] | None = None, heads: Iterable[int] | None = None) -> None:
        self._layers = None if layers is None else set(layers)
        self._heads = None if heads is None else list(heads)
        self._found = list[_Collected]()

    def __len__(self) -> int:
        """The number of attentions, kept or not."""
        return len(self._found)

    def add(self, name: str, role: Role, origin: tuple[int, ...], weights: Tensor) -> None:
        """Add weights (B, H, T, S): a new attention, or a part of an earlier one."""
        known = self._step_of(name, weights) or self._head_of(role, origin, weights)
        if known is None:
            known = _Collected(name, role, origin, weights.shape, [])
            self._found.append(known)
        else:
            known.count += 1
            known.name = _common_name(known.name, name)
            known.shape = weights.shape
        if self._is_wanted(self._found.index(known), name):
            known.pieces.append(self._chosen(weights, known).detach().cpu())

    def attentions(self) -> tuple[Attention, ...]:
        """Those that were asked for, in the order of their computation."""
        names = _numbered([one.name for one in self._found])
        found = (
            Attention(name, one.role, one.pieces[0] if one.count == 1 else torch.cat(one.pieces, one.axis))
            for name, one in zip(names, self._found, strict=True)
            if one.pieces
        )
        # Queries and keys of one sequence may be computed from two tensors, such as compressed ones.
        return tuple(
            replace(one, role="self") if one.role == "cross" and one.causal else one for one in found
        )

    def _step_of(self, name: str, weights: Tensor) -> _Collected | None:
        """The attention of a recurrent decoder whose next step this is."""
        if weights.shape[QUERIES] != 1:
            return None
        for one in reversed(self._found):
            if one.name == name and one.shape == weights.shape:
                one.axis = QUERIES
                return one
        return None

    def _head_of(self, role: Role, origin: tuple[int, ...], weights: Tensor) -> _Collected | None:
        """The attention whose next head this is: computed from the same tensors, just before."""
        last = self._found[-1] if self._found else None
        if last is None or not origin or weights.shape[HEADS] != 1 or last.axis != HEADS:
            return None
        same = (last.role, last.origin, last.shape) == (role, origin, weights.shape)
        return last if same else None

    def _is_wanted(self, number: int, name: str) -> bool:
        if self._layers is None or number in self._layers:
            return True
        return any(
            isinstance(one, str) and (name == one or name.startswith(f"{one}.")) for one in self._layers
        )

    def _chosen(self, weights: Tensor, one: _Collected) -> Tensor:
        """The heads that were asked for."""
        if self._heads is None:
            return weights
        first = one.count - 1 if one.axis == HEADS else 0  # heads that were computed one by one
        wanted = [head - first for head in self._heads if 0 <= head - first < weights.shape[HEADS]]
        return weights[:, wanted]


def _common_name(one: str, other: str) -> str:
    """The module that contains both: "attention" of "attention.heads.0" and "attention.heads.1"."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return ".".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _numbered(names: list[str]) -> list[str]:
    """The names; a module that is used for several layers has one name per layer: "block", "block (2)"."""
    seen = Counter[str]()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered
