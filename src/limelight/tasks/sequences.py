"""What tasks on sequences share: examples, how a line is read, what a model must know."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from limelight.config import Config
from limelight.data.batching import Batch, even_batches
from limelight.data.dataset import Reader, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.readers import Answers
from limelight.errors import WrongInput
from limelight.models.sizes import Sizes
from limelight.tasks.examples import ExamplesTask
from limelight.tasks.task import Answer, Goal

PREDICT_BATCH = 256


class SequenceState(Config):
    """What stays of the data when only prediction is wanted."""

    reader: Reader
    answers: Answers
    longest: int


class SequenceTask(ExamplesTask[SequenceData]):
    def __init__(self, state: SequenceState, data: SequenceData | None = None) -> None:
        super().__init__(data)
        self._state = state
        self.reader, self.answers = state.reader, state.answers

    @classmethod
    def of(cls, data: SequenceData) -> Self:
        longest = max(int(examples.inputs.lengths.max()) for examples in data.splits.values())
        return cls(SequenceState(reader=data.reader, answers=data.answers, longest=longest), data)

    @classmethod
    def restored(cls, state: str) -> Self:
        """For prediction alone, without the examples."""
        return cls(SequenceState.model_validate_json(state))

    @property
    def goal(self) -> Goal:
        return Goal("error", 0.0) if self.answers.kind == "number" else Goal("accuracy", 1.0)

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            outputs=self.answers.outputs,
            vocabulary=0 if self.reader.kind == "vectors" else self.reader.size,
            features=self.reader.features if self.reader.kind == "vectors" else 0,
            longest=self._state.longest,
        )

    @property
    def state(self) -> str:
        return self._state.model_dump_json()

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        return batch.inputs, batch.lengths

    def blank(self, count: int) -> Batch:
        shape, sizes = (count, self._state.longest), self.sizes
        inputs = (
            torch.zeros(*shape, sizes.features) if sizes.features else torch.zeros(shape, dtype=torch.long)
        )
        return Batch(inputs, torch.zeros(shape), torch.arange(count))

    def sample(self, split: str) -> str:
        """An input to try `predict` on; empty where none can be typed."""
        return self.reader.write(self.examples(split).inputs[0])

    @abstractmethod
    def choices(self, outputs: Tensor, length: int) -> Tensor:
        """Of one sequence's outputs, (T, L) or (L): how likely each answer is, for all or by item."""

    def answer(self, outputs: Tensor, length: int) -> Answer:
        """What the model says of one sequence, of its outputs (T, L) or (L)."""
        if self.answers.kind == "number":
            return Answer(f"{float(outputs) * self.answers.deviation + self.answers.mean:.4g}")
        best, chosen = self.choices(outputs, length).max(-1)
        return Answer(self.name(chosen), float(best.prod()))

    def name(self, answer: Tensor) -> str:
        """() or (T) -> in words, what is right or was chosen"""
        if self.answers.kind == "number":
            return f"{float(answer):.4g}"
        numbers = answer.long().flatten().tolist()
        names = self.answers.names
        return " ".join(
            names[i] if names else str(i) for i in numbers
        )  # items have no names but their places

    @torch.no_grad()
    def predict(
        self, model: nn.Module, lines: Sequence[str | Path | Tensor], *, first: int = 1
    ) -> list[Answer]:
        """One answer a line, in the order of the lines."""
        rows = Ragged.of([self.encode(line, number) for number, line in enumerate(lines, first)])
        device = next(model.parameters()).device
        model.eval()
        found: dict[int, Answer] = {}
        for index in even_batches(rows.lengths, PREDICT_BATCH):
            inputs, lengths = rows.pad(index)
            batch = Batch(inputs, index, index, lengths).to(device)
            outputs = model(*self.arguments(batch)).float().cpu()
            for row, output in zip(index.tolist(), outputs, strict=True):
                found[row] = self.answer(output, int(rows.lengths[row]))
        return [found[i] for i in range(len(rows))]

    def encode(self, line: str | Path | Tensor, number: int = 1) -> Tensor:
        """-> (T) or (T, features)"""
        if isinstance(line, Tensor):
            return line
        try:
            return self.reader.encode(str(line))
        except WrongInput as refusal:
            raise WrongInput(f"input {number}: {refusal}") from None
