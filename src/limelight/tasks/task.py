"""What is asked and how it is judged: all that a trainer knows of a task."""

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor, nn

from limelight.data.batching import Batch
from limelight.errors import WrongInput
from limelight.models.sizes import Sizes


@dataclass(frozen=True)
class Goal:
    """The metric that decides which weights are best, and the value that cannot be surpassed."""

    metric: str
    perfect: float

    def rank(self, value: float) -> float:
        """The higher the better, whatever the metric."""
        return value if self.perfect > 0 else -value


@dataclass(frozen=True)
class Scores:
    """Sums over the predictions of a batch, so that batches of any size add up."""

    loss: Tensor
    sums: dict[str, Tensor]


@dataclass(frozen=True)
class Judgement:
    """What is judged on whole answers, and where it matters by which rules."""

    values: dict[str, float]
    signatures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a model says of one input, and how sure it is (of a number it does not say)."""

    text: str
    probability: float | None = None
    others: tuple["Answer", ...] = ()  # the next best, where more than one was asked for
    alignment: tuple[tuple[int, int], ...] = ()  # (word of the input, word of the answer), from 0 on

    def __str__(self) -> str:
        return self.text


MOST_ITEMS = 2_000  # of an input, unless training had longer ones: what attention costs grows with the square


def check_length(length: int, trained: int, number: int = 1) -> None:
    """Refuse an input that would take minutes; `trained` is the length of the longest in training."""
    most = max(MOST_ITEMS, 2 * trained)
    if length > most:
        raise WrongInput(f"input {number}: {length:,} tokens; allowed: {most:,}")


class Task(Protocol):
    unit: str  # of what speed is counted in

    @property
    def goal(self) -> Goal: ...

    @property
    def sizes(self) -> Sizes:
        """What a model needs to know of the data."""

    @property
    def state(self) -> str:
        """JSON: what prediction needs beside the weights."""

    @property
    def digest(self) -> str:
        """Changes when the data does."""

    @property
    def splits(self) -> tuple[str, ...]: ...

    def lengths(self, split: str) -> Tensor:
        """(N), one an example"""

    def batch(self, split: str, index: Tensor) -> Batch: ...

    def predictions(self, batch: Batch) -> int:
        """How many predictions the sums of `score` are over."""

    def score(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """The loss to learn from, and what to report beside it."""

    def judge(self, model: nn.Module, split: str) -> Judgement:
        """What takes too long to be looked at while training."""
