"""Inputs and outputs of a call, independent of the names and shapes that the checked code uses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from limelight.check.harness.mask_formats import MaskFormat
from limelight.check.harness.sizes import Sizes
from limelight.check.report import Finding


class CannotCall(Exception):
    """No way of calling the object was found; `crash` shows an error of the checked code itself."""

    def __init__(self, reason: str, crash: Finding | None = None) -> None:
        super().__init__(reason)
        self.crash = crash


@dataclass(frozen=True)
class Case:
    """One input, batch first: the queries or the sequence itself, the source, and values if they differ."""

    x: Tensor
    source: Tensor | None = None
    values: Tensor | None = None

    @property
    def keys(self) -> int:
        """The number of positions that can be attended to."""
        return (self.x if self.source is None else self.source).shape[1]

    def tensors(self) -> list[Tensor]:
        """The tensors that are present."""
        return [tensor for tensor in (self.x, self.source, self.values) if tensor is not None]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Case":
        """A copy with each tensor changed by the function."""
        source, values = (None if t is None else change(t) for t in (self.source, self.values))
        return Case(change(self.x), source, values)


@dataclass(frozen=True)
class Result:
    """The output of a call, batch first."""

    out: Tensor  # (B, T, ...), or the output for an image
    weights: Tensor | None = None  # attention weights, if they are returned
    state: Any = None  # the state or cache, if one is returned
    shifted: bool = False  # the model drops the last token of the target itself
    shared: bool = False  # one output for all sequences, repeated for each of them
    pooled: bool = False  # one output for the whole sequence, repeated for every position


@dataclass
class MaskArgument:
    """An argument that restricts which keys a query may attend to; its format is found by trying."""

    name: str
    role: str  # "mask", "lengths" or "state"
    over_memory: bool  # whether it masks the memory or source, not the sequence itself
    format: MaskFormat | None = None
    has_effect: bool = True
    required: bool = False
    guessed: bool = False  # its name is unknown; it is only a mask if it works as one
    duplicates: list[str] = field(default_factory=list)  # other arguments that get the same mask


@dataclass(frozen=True)
class Form:
    """The shapes of the tensors of a call."""

    inputs: str = "vectors"  # or "tokens", "images", "size"
    query: str = "BTD"  # attention often takes a single query: "B1D", "BD", "1BD"
    heads_axis: bool = False  # a function may require (B, H, T, K)
    narrow_values: bool = True  # whether the values may have another width than the keys
    time_first: bool = False  # (T, B, D) instead of (B, T, D)
    source: str = "vectors"  # or "tokens"
    first_state: str = "BD"  # the first hidden state of a recurrent decoder; or "1BD", "LBD"
    batched: bool = True  # or one sequence at a time: (T, D)
    positions: str = "ids"  # an argument for positions: their numbers, or "vectors" that are added

    @property
    def is_usual(self) -> bool:
        """Whether it takes a batch of sequences of queries, batch first."""
        return self.query == "BTD" and not self.time_first and self.batched


def random_sequence(inputs: str, sizes: Sizes, length: int, width: int) -> Tensor:
    """Random tokens, (B, T), or vectors, (B, T, D)."""
    if inputs == "tokens":
        return torch.randint(1, sizes.vocabulary, (sizes.batch, length))
    return torch.randn(sizes.batch, length, width)
