"""What the tasks on running text share: language models and masked language models."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.config import Config
from limelight.data.batching import Batch
from limelight.data.text.running_text import RunningText, TextData
from limelight.data.text.text_readers import TextReader
from limelight.data.text.text_vocabulary import TextVocabulary
from limelight.models.sizes import Sizes
from limelight.nn import cross_entropy
from limelight.tasks.task import Task, TaskConfig, unsuitable_reader

ROWS = 8_192  # tokens whose logits are computed at once in evaluation: 130 MB for 4,000 subwords


class RunningTextState(Config):
    """The properties of the data that prediction needs."""

    reader: TextReader = Field(description="the vocabulary")
    context: int = Field(ge=1, description="tokens per training example, at most")


class RunningTextTask(Task[TextData]):
    """A task that predicts tokens of running text."""

    reader: TextReader

    def __init__(self, state: RunningTextState) -> None:
        self._state = state
        self.reader, self.context = state.reader, state.context

    @property
    def sizes(self) -> Sizes:
        """Data-dependent model dimensions."""
        size = self.reader.size
        return Sizes(outputs=size, vocabulary=size, longest=self.context, shared=True)

    @property
    def state(self) -> str:
        """JSON: what prediction needs besides the weights."""
        return self._state.model_dump_json()

    def blank(self, count: int) -> Batch:
        """A batch of `count` examples without content."""
        empty = torch.zeros(count, self.context, dtype=torch.long)
        return Batch(empty, empty, torch.arange(count))


class RunningTextConfig(TaskConfig):
    """The settings of a task on running text."""

    data: RunningText = Field(RunningText(), description="the text")

    @abstractmethod
    def task_of(self, data: TextData) -> Any:
        """The task that a data set defines."""

    def load(self, seed: int) -> tuple[Any, TextData]:
        """Load the text, and make the task from it."""
        data = self.data.load(seed)
        return self.task_of(data), data

    def load_from(self, seed: int, start: Task[Any]) -> tuple[Any, TextData]:
        """The text is read with the vocabulary of the task to start from."""
        if not isinstance(start.reader, TextVocabulary):
            raise unsuitable_reader(start, "a vocabulary of running text")
        data = self.data.load(seed, start.reader)
        return self.task_of(data), data

    def load_other(self, task: Any, path: Path) -> TextData:
        """Another text than that of training."""
        data = self.data.model_copy(update={"context": task.context})
        return data.load_other(path, task.reader)


def token_losses(
    x: Tensor, output: nn.Linear, targets: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """(N, D), (N) -> (), ()

    The same as `cross_entropy`; without gradients, some rows at a time.
    """
    rows = max(1, len(x)) if torch.is_grad_enabled() else ROWS
    parts = zip(x.split(rows), targets.split(rows), strict=True)
    both = [cross_entropy(part, output, target, smoothing) for part, target in parts]
    loss, right = (torch.stack(sums).sum() for sums in zip(*both, strict=True))
    return loss, right
