"""What every task that has examples shares."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor, nn

from limelight.data.batching import Batch
from limelight.data.text.text_files import read_text
from limelight.errors import WrongInput, unknown
from limelight.tasks.task import Judgement, Scores


class Data(Protocol):
    @property
    def splits(self) -> Mapping[str, Any]: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def digest(self) -> str: ...


D = TypeVar("D", bound=Data)


class ExamplesTask(ABC, Generic[D]):
    """With its examples, or restored for prediction alone."""

    unit = "tokens"

    def __init__(self, data: D | None) -> None:
        self._data = data

    @property
    def data(self) -> D:
        if self._data is None:
            raise WrongInput("the examples were not loaded: this task was restored for prediction")
        return self._data

    @property
    def digest(self) -> str:
        return self.data.digest

    @property
    def notes(self) -> tuple[str, ...]:
        return self.data.notes

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.data.splits)

    def examples(self, split: str) -> Any:
        if split not in self.data.splits:
            raise unknown("split", split, self.data.splits)
        return self.data.splits[split]

    def lengths(self, split: str) -> Tensor:
        return self.examples(split).inputs.lengths

    def batch(self, split: str, index: Tensor) -> Batch:
        return self.examples(split).batch(index)

    def lines_of(self, path: Path) -> list[str]:
        """The inputs in a file: its lines, unless the task knows better."""
        return read_text(path).removesuffix("\n").split("\n")

    def judge(self, model: nn.Module, split: str) -> Judgement:
        return Judgement({})

    @abstractmethod
    def predictions(self, batch: Batch) -> int: ...

    @abstractmethod
    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """What the model is called with."""

    @abstractmethod
    def blank(self, count: int) -> Batch:
        """As many examples as wanted, of the longest there was, without content: to try a model on."""

    @abstractmethod
    def score(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores: ...
