"""What goes in and what comes out, whatever their code calls it; and how its tensors are shaped."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from limelight.check.harness.mask_formats import Way

BARE = ("scaled-dot-product", "dot-product-attention")


ATTENTION = (*BARE, "additive-attention", "multi-head-attention")


DECODERS = ("decoder-block", "decoder")


IMAGES = ("patch-embedding", "vision-transformer")


STACKS = ("encoder", "decoder", "sequence-model", "vision-transformer")


MADE = ("encoder-block", "decoder-block", *STACKS)


class NotUnderstood(Exception):
    """No way was found to call it."""


@dataclass(frozen=True)
class Case:
    """What goes in, batch first: queries or the sequence itself, the source, its values where they differ."""

    x: Tensor
    source: Tensor | None = None
    values: Tensor | None = None

    @property
    def keys(self) -> int:
        """How many positions are looked at."""
        return (self.x if self.source is None else self.source).shape[1]

    def tensors(self) -> list[Tensor]:
        return [tensor for tensor in (self.x, self.source, self.values) if tensor is not None]

    def each(self, change: Callable[[Tensor], Tensor]) -> "Case":
        source, values = (None if t is None else change(t) for t in (self.source, self.values))
        return Case(change(self.x), source, values)


@dataclass(frozen=True)
class Result:
    out: Tensor  # (B, T, ...), or what an image became
    weights: Tensor | None = None  # as they were returned
    state: Any = None
    pooled: bool = False  # of the whole sequence, said of every position


@dataclass
class MaskArgument:
    """An argument that says who may attend to whom; `way` is found by trying."""

    name: str
    role: str  # "mask" or "lengths"
    of_memory: bool
    way: Way | None = None
    effect: bool = True
    required: bool = False
    guessed: bool = False  # by nothing but that it need not be given
    along: list[str] = field(default_factory=list)  # other arguments that say the same


@dataclass(frozen=True)
class Form:
    """How its tensors are shaped."""

    inputs: str = "vectors"  # or "tokens", "images", "size"
    query: str = "BTD"  # additive attention often takes one query: "B1D", "BD", "1BD"
    heads_axis: bool = False  # a bare function may insist on (B, H, T, K)
    narrow_values: bool = True  # whether values may be of another width than keys
    time_first: bool = False
    source: str = "vectors"
    begin: str = "BD"  # the first hidden state of a recurrent decoder; or "1BD", "LBD"
