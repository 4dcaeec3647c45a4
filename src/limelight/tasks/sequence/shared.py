"""Code that all tasks on sequences share."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.config import Config, read_json
from limelight.data.batching import Batch, even_batches
from limelight.data.dataset import Reader, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.text.ngrams import COLUMNS
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.symbols import Answers
from limelight.data.text.text_column import Column, find_column, is_table
from limelight.data.text.text_vocabulary import TextVocabulary
from limelight.errors import WrongInput, wrong
from limelight.models.sizes import Sizes
from limelight.tasks.task import (
    Answer,
    Comparison,
    Example,
    Goal,
    Input,
    Task,
    TaskConfig,
    as_text,
    check_length,
    check_record_size,
    describe_reader,
    record_each,
    unlike_lengths,
    unlike_tokens,
    unsuitable_reader,
)
from limelight.view.capture import capture
from limelight.view.lens import logit_lens
from limelight.view.record import Record, attention_maps, most_likely, place_in_encoder

PREDICT_BATCH = 256
FIGURE_LENGTHS = (5, 16)  # items of the example in a figure: enough to see a pattern, and readable labels
LONGEST_EXAMPLE = 64  # items; longer records are hard to read and make the page large


class SequenceState(Config):
    """The properties of the data that prediction needs."""

    reader: Reader = Field(description="how a line becomes a sequence of items")
    answers: Answers = Field(description="what is predicted")
    longest: int = Field(ge=1, description="length of the longest sequence of training")
    cut: int | None = Field(None, ge=1, description="length to which longer sequences are truncated")
    column: str = Field("", description="for a table: the column of the texts")
    header: bool = Field(False, description="for a table: whether its first row has the column names")
    label: str = Field("", description="for a table: the column of the labels")
    second: str = Field("", description="for a table of pairs: the column of the second texts")
    shortest: int = Field(1, ge=1, description="length of the shortest sequence of training")


class SequenceTask(Task[SequenceData]):
    """A task whose inputs are sequences of symbols, tokens or vectors."""

    reader: Reader

    def __init__(self, state: SequenceState) -> None:
        self._state = state
        self.reader, self.answers = state.reader, state.answers

    @classmethod
    def of(cls, data: SequenceData) -> Self:
        """The task that a data set defines."""
        longest = max(int(examples.inputs.lengths.max()) for examples in data.splits.values())
        state = SequenceState(
            reader=data.reader,
            answers=data.answers,
            longest=longest,
            cut=data.cut,
            column=data.column.name if data.column else "",
            header=data.column.header if data.column else False,
            label=data.column.label if data.column else "",
            second=data.column.second if data.column else "",
            shortest=min(int(examples.inputs.lengths.min()) for examples in data.splits.values()),
        )
        return cls(state)

    @classmethod
    def restored(cls, state: str) -> Self:
        """The task with this state."""
        return cls(read_json(SequenceState, state, "data.json"))

    @property
    def goal(self) -> Goal:
        """The metric that selects the best checkpoint."""
        return Goal("mae", 0.0) if self.answers.kind == "number" else Goal("accuracy", 1.0)

    @property
    def sizes(self) -> Sizes:
        """Data-dependent model dimensions."""
        return Sizes(
            outputs=self.answers.outputs,
            vocabulary=0 if self.reader.kind == "vectors" else self.reader.size,
            ngrams=self.reader.total if self.reader.kind in ("ngrams", "affixes") else 0,
            separator=self.reader.separator if self.reader.kind == "pair" else 0,
            features=self.reader.features if self.reader.kind == "vectors" else 0,
            longest=max(self._state.longest, self._positions),
        )

    @property
    def _positions(self) -> int:
        """Number of positions of a pre-trained model, all of which are kept; 0 for other vocabularies."""
        vocabulary = self.reader.vocabulary if self.reader.kind == "pair" else self.reader
        return vocabulary.longest if isinstance(vocabulary, PretrainedTokenizer) else 0

    @property
    def state(self) -> str:
        """JSON: what prediction needs besides the weights."""
        return self._state.model_dump_json()

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """The arguments with which the model is called."""
        return batch.inputs, batch.lengths

    def blank(self, count: int) -> Batch:
        """A batch of `count` examples without content, as long as the longest of training."""
        shape, sizes = (count, self._state.longest), self.sizes
        ids = (*shape, COLUMNS) if sizes.ngrams else shape
        inputs = torch.zeros(*shape, sizes.features) if sizes.features else torch.zeros(ids, dtype=torch.long)
        return Batch(inputs, torch.zeros(shape), torch.arange(count))

    def sample(self, dataset: SequenceData, split: str) -> str:
        """The first example, as text."""
        return dataset.text(split, 0) or self.reader.decode(dataset.examples(split).inputs[0])

    def examples(self, dataset: SequenceData, split: str) -> Iterator[Example]:
        """The examples that are short enough for a record."""
        compared_as = self._compared_as(dataset, split)
        for number, length in enumerate(dataset.lengths(split).tolist()):
            if length <= LONGEST_EXAMPLE:
                yield self._example(dataset, split, number, compared_as)

    def _example(self, dataset: SequenceData, split: str, number: int, compared_as: Comparison) -> Example:
        batch = dataset.batch(split, torch.tensor([number]))
        given = dataset.text(split, number) or batch.inputs[0]
        return Example(given, (self.name(batch.targets[0]),), compared_as)

    def _compared_as(self, dataset: SequenceData, split: str) -> Comparison:
        if self.answers.kind != "number":
            return "text"
        numbers = cast(Tensor, dataset.examples(split).targets)
        return "whole numbers" if bool((numbers == numbers.round()).all()) else "numbers"

    def figure_example(self, model: nn.Module, dataset: SequenceData, split: str) -> Example:
        """The first example whose length suits a figure, or the one that is closest to it."""
        lengths = dataset.lengths(split)
        first = int((lengths - lengths.clamp(*FIGURE_LENGTHS)).abs().argmin())
        return self._example(dataset, split, first, self._compared_as(dataset, split))

    def inputs_in(self, path: Path) -> list[str]:
        """The inputs in a file: the text column of a table, or the lines of another file."""
        return self._column(path).read(path) if self._has_columns(path) else super().inputs_in(path)

    def columns_in(self, path: Path) -> tuple[list[str], list[list[str]]]:
        """The columns of a table, or one column of lines."""
        return self._column(path).table(path) if self._has_columns(path) else super().columns_in(path)

    def _has_columns(self, path: Path) -> bool:
        return self.reader.kind not in ("symbols", "vectors") and is_table(path)

    def _column(self, path: Path) -> Column:
        return self.column if self._state.column else find_column(path)

    @property
    def column(self) -> Column:
        """The column of the texts of training; without a name if they were not read from a table."""
        return Column(self._state.column, self._state.header, self._state.label, self._state.second)

    def unlike_training(self, inputs: Sequence[Input]) -> list[str]:
        """Warnings about lengths that did not occur in training, and about unknown words."""
        lines = [str(one) for one in inputs if str(one).strip()]
        rows = [self.encode(line) for line in lines]
        trained = (self._state.shortest, self._state.longest)
        if self.reader.kind in ("symbols", "vectors"):
            return unlike_lengths(map(len, rows), trained)
        tokens = [self.reader.tokens(line) for line in lines]
        ids = [row[:, 0].tolist() if row.dim() == 2 else row.tolist() for row in rows]
        cut = sum(len(one) > len(row) for one, row in zip(tokens, rows, strict=True))
        truncated = (
            [f"{cut:,} of {len(rows):,} inputs were truncated to {self._state.cut:,} tokens"] if cut else []
        )
        known = [list(zip(*pair, strict=False)) for pair in zip(tokens, ids, strict=True)]
        return unlike_lengths(map(len, tokens), trained) + truncated + unlike_tokens(known, self._unknown)

    @property
    def _unknown(self) -> int:
        """The id of unknown tokens; -1 if there are none."""
        vocabulary = self.reader.vocabulary if self.reader.kind == "pair" else self.reader
        return vocabulary.unknown if isinstance(vocabulary, TextVocabulary) else 0

    def choices(self, outputs: Tensor, length: int) -> Tensor:
        """(T, L) | (L) -> the probabilities of all answers, per item or per sequence; empty for numbers"""
        if self.answers.kind == "number":
            return outputs.new_empty(0)
        return (outputs[:length] if outputs.dim() == 2 else outputs).softmax(-1)

    def answer(self, outputs: Tensor, length: int) -> Answer:
        """(T, L) | (L) -> the answer to one sequence"""
        if self.answers.kind == "number":
            numbers = [self.answers.format_number(one) for one in outputs[:length].flatten().tolist()]
            return Answer(" ".join(numbers), number=float(numbers[0]) if len(numbers) == 1 else None)
        choices = self.choices(outputs, length)
        best, chosen = choices.max(-1)
        names = self.answers.names if choices.dim() == 1 else ()
        by_class = dict(zip(names, choices.tolist(), strict=True)) if names else {}
        return Answer(self.name(chosen), float(best.prod()), probabilities=by_class)

    def answer_to(self, given: Input, outputs: Tensor, length: int) -> Answer:
        """(T, L) | (L) -> the answer to an input, for tasks whose answers name parts of it"""
        return self.answer(outputs, length)

    def name(self, answer: Tensor) -> str:
        """() | (T) -> the text of an answer that is given as numbers"""
        if self.answers.kind == "number":
            return " ".join(f"{value:.7g}" for value in answer.flatten().tolist())  # the precision of float32
        names = self.answers.names
        return " ".join(names[i] if names else str(i) for i in answer.long().flatten().tolist())

    @torch.no_grad()
    def predict(
        self, model: nn.Module, inputs: Sequence[Input], options: Any = None, *, first: int = 1
    ) -> list[Answer]:
        """One answer per input, in order; the answer to an empty line is empty."""
        places = [i for i, one in enumerate(inputs) if isinstance(one, Tensor) or str(one).strip()]
        rows = [self.encode(inputs[i], first + i) for i in places]
        answers = self._answers(model, [inputs[i] for i in places], rows)
        found = dict(zip(places, answers, strict=True))
        return [found.get(i, Answer("")) for i in range(len(inputs))]

    def record(self, model: nn.Module, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        """The answer and all attention maps of each input, in order; for an invalid input, its error."""
        model.eval()
        return record_each(inputs, lambda given, number: self._record(model, given, number))

    def _record(self, model: nn.Module, given: Input, number: int) -> Record:
        items = self.encode(given, number)
        check_record_size(len(items), f"{len(items):,} tokens")
        tokens = self.tokens(given, items)
        batch = Batch(items.unsqueeze(0), torch.zeros(1), torch.zeros(1))
        arguments = self.arguments(batch.to(next(model.parameters()).device))
        found = capture(model, *arguments)
        if found.attentions[0].weights.shape[-1] == len(tokens) + 1:
            tokens = ["[class]", *tokens]
        outputs = found.output[0].float().cpu()
        answer, choices = self.answer_to(given, outputs, len(items)), self.choices(outputs, len(items))
        name = (self.answers.names or tuple(tokens)).__getitem__
        by_item = choices.dim() == 2
        maps, weights = attention_maps(found.attentions, place_in_encoder)

        def likely() -> Tensor:
            return self.choices(model(*arguments)[0].float().cpu(), len(items))

        return Record(
            given=as_text(given) if isinstance(given, str | Path) else self.reader.decode(items),
            answer=answer.text,
            probability=answer.probability,
            sides={"source": tuple(tokens), "question": ("[question]",)},
            maps=maps,
            weights=weights,
            candidates=() if by_item else most_likely(choices, name),
            steps=tuple(most_likely(one, name) for one in choices) if by_item else (),
            stepped="source" if by_item else "",
            lens=logit_lens(model, likely, name),
        )

    def tokens(self, given: Input, items: Tensor) -> list[str]:
        """The text of each item of an input; unknown tokens of a line are marked."""
        if not isinstance(given, str | Path):
            return self.reader.item_names(items)
        return [as_text(token) for token in self.reader.tokens(str(given))[: self._state.cut]]

    def _answers(self, model: nn.Module, given: list[Input], encoded: list[Tensor]) -> list[Answer]:
        if not encoded:
            return []
        rows = Ragged.from_rows(encoded)
        device = next(model.parameters()).device
        model.eval()
        found: dict[int, Answer] = {}
        for index in even_batches(rows.lengths, PREDICT_BATCH):
            inputs, lengths = rows.pad(index)
            batch = Batch(inputs, index, index, lengths).to(device)
            outputs = model(*self.arguments(batch)).float().cpu()
            for row, output in zip(index.tolist(), outputs, strict=True):
                found[row] = self.answer_to(given[row], output, int(rows.lengths[row]))
        return [found[i] for i in range(len(rows))]

    def encode(self, given: Input, number: int = 1) -> Tensor:
        """-> (T) | (T, features)"""
        if isinstance(given, Tensor):
            return self._check(given, number)
        if isinstance(given, bytes):
            raise WrongInput("this model reads text, not images")
        try:
            row = self.reader.encode(str(given))[: self._state.cut]
        except WrongInput as refusal:
            raise WrongInput(f"input {number}: {refusal}") from None
        check_length(len(row), self._state.longest, number)
        return row

    def _check(self, row: Tensor, number: int) -> Tensor:
        """The sequence in the type that the model takes; anything that is not a valid sequence is refused."""
        features, size, ngrams = self.sizes.features, self.sizes.vocabulary, self.sizes.ngrams
        if ngrams:
            allowed = (
                f"(T, {COLUMNS}), of integers: a word from 0 to {size - 1}, n-grams from 0 to {ngrams - 1}"
            )
            good = row.dim() == 2 and row.shape[1] == COLUMNS and not row.is_floating_point()
            good = good and bool(((row >= 0) & (row < ngrams)).all() & (row[:, 0] < size).all())
        elif features:
            allowed, good = f"(T, {features}), of numbers", row.dim() == 2 and row.shape[1] == features
        else:
            allowed = f"(T), of integers from 0 to {size - 1}"
            good = row.dim() == 1 and not row.is_floating_point()
            good = good and bool(((row >= 0) & (row < size)).all())
        if not good or not len(row):
            raise wrong(f"input {number}", f"{row.dtype} of shape {tuple(row.shape)}", allowed)
        check_length(len(row), self._state.longest, number)
        return row.float() if features else row.long()


class SequenceTaskConfig(TaskConfig):
    """The settings of a task on sequences, whose data is a `SequenceData`."""

    task: ClassVar[type[SequenceTask]]

    def load(self, seed: int) -> tuple[SequenceTask, SequenceData]:
        """Load the data set, and make the task from it."""
        data = cast(Any, self.data).load(seed)
        return self.task.of(data), data

    def load_from(self, seed: int, start: Task[Any]) -> tuple[SequenceTask, SequenceData]:
        """The same data set, if the task to start from has the same symbols."""
        task, data = self.load(seed)
        if task.reader != start.reader:
            raise unsuitable_reader(start, describe_reader(task.reader))
        return task, data

    def restore(self, state: str) -> SequenceTask:
        """Make the task from its state, for prediction."""
        return self.task.restored(state)
