"""What tasks on sequences share: examples, how a line is read, what a model must know."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.config import Config, read_json
from limelight.data.batching import Batch, even_batches
from limelight.data.dataset import Reader, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.text.labelled_text import Column, find_column, is_table
from limelight.data.text.symbols import Answers
from limelight.errors import WrongInput, wrong
from limelight.models.sizes import Sizes
from limelight.tasks.examples import ExamplesTask
from limelight.tasks.task import Answer, Goal, check_length

PREDICT_BATCH = 256


class SequenceState(Config):
    """What stays of the data when only prediction is wanted."""

    reader: Reader
    answers: Answers
    longest: int = Field(ge=1)
    cut: int | None = Field(None, ge=1)  # items beyond which a sequence is cut off
    column: str = ""  # of a table: the one that the texts stand in
    header: bool = False  # of a table: whether its first row has the names of the columns


class SequenceTask(ExamplesTask[SequenceData]):
    def __init__(self, state: SequenceState, data: SequenceData | None = None) -> None:
        super().__init__(data)
        self._state = state
        self.reader, self.answers = state.reader, state.answers

    @classmethod
    def of(cls, data: SequenceData) -> Self:
        longest = max(int(examples.inputs.lengths.max()) for examples in data.splits.values())
        state = SequenceState(
            reader=data.reader,
            answers=data.answers,
            longest=longest,
            cut=data.cut,
            column=data.column,
            header=data.header,
        )
        return cls(state, data)

    @classmethod
    def restored(cls, state: str) -> Self:
        """For prediction alone, without the examples."""
        return cls(read_json(SequenceState, state, "data.json"))

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
        return self.text(split, 0) or self.reader.write(self.examples(split).inputs[0])

    def text(self, split: str, number: int) -> str:
        """An example as it was before it was read; empty where it never was a text."""
        texts = self.data.texts.get(split)
        return texts[number] if texts else ""

    def tokens(self, line: str) -> list[str]:
        """A name for each item of a line, as `encode` reads it; what is unknown is marked."""
        return self.reader.tokens(line)[: self._state.cut]

    def show(self, row: Tensor) -> list[str]:
        """A name for each item of an encoded line."""
        return self.reader.show(row)

    def lines_of(self, path: Path) -> list[str]:
        """The inputs in a file: of a table, the column that training read; else its lines."""
        if self.reader.kind in ("symbols", "vectors") or not is_table(path):
            return super().lines_of(path)
        column = Column(self._state.column, self._state.header) if self._state.column else find_column(path)
        return column.read(path)

    @abstractmethod
    def choices(self, outputs: Tensor, length: int) -> Tensor:
        """Of one sequence's outputs, (T, L) or (L): how likely each answer is, for all or by item."""

    def answer(self, outputs: Tensor, length: int) -> Answer:
        """What the model says of one sequence, of its outputs (T, L) or (L)."""
        if self.answers.kind == "number":
            return Answer(self.answers.write(float(outputs)))
        best, chosen = self.choices(outputs, length).max(-1)
        return Answer(self.name(chosen), float(best.prod()))

    def name(self, answer: Tensor) -> str:
        """() or (T) -> in words, what is right or was chosen"""
        if self.answers.kind == "number":
            return f"{float(answer):.7g}"  # as many digits as float32 holds
        numbers = answer.long().flatten().tolist()
        names = self.answers.names
        return " ".join(
            names[i] if names else str(i) for i in numbers
        )  # items have no names but their places

    @torch.no_grad()
    def predict(
        self, model: nn.Module, lines: Sequence[str | Path | Tensor], *, first: int = 1
    ) -> list[Answer]:
        """One answer a line, in the order of the lines; of an empty line, an empty one."""
        places = [i for i, line in enumerate(lines) if isinstance(line, Tensor) or str(line).strip()]
        said = self._answers(model, [self.encode(lines[i], first + i) for i in places])
        found = dict(zip(places, said, strict=True))
        return [found.get(i, Answer("")) for i in range(len(lines))]

    def _answers(self, model: nn.Module, encoded: list[Tensor]) -> list[Answer]:
        if not encoded:
            return []
        rows = Ragged.of(encoded)
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
            return self._check(line, number)
        try:
            row = self.reader.encode(str(line))[: self._state.cut]
        except WrongInput as refusal:
            raise WrongInput(f"input {number}: {refusal}") from None
        check_length(len(row), self._state.longest, number)
        return row

    def _check(self, row: Tensor, number: int) -> Tensor:
        """A sequence as it is given to the model; anything else is refused."""
        features, size = self.sizes.features, self.sizes.vocabulary
        if features:
            allowed, good = f"(T, {features}), of numbers", row.dim() == 2 and row.shape[1] == features
        else:
            allowed = f"(T), of whole numbers from 0 to {size - 1}"
            good = row.dim() == 1 and not row.is_floating_point()
            good = good and bool(((row >= 0) & (row < size)).all())
        if not good or not len(row):
            raise wrong(f"input {number}", f"{row.dtype} of shape {tuple(row.shape)}", allowed)
        check_length(len(row), self._state.longest, number)
        return row.float() if features else row.long()
