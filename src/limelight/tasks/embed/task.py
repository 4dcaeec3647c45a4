"""A vector for each text, and the similarity of two texts. The models are pre-trained elsewhere."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from limelight.config import Config, read_json
from limelight.data.batching import Batch, even_batches
from limelight.data.dataset import Dataset
from limelight.data.ragged import Ragged
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.text_column import find_column, find_columns_of_pairs, is_table
from limelight.data.text.text_pair import TYPED, split_pair
from limelight.errors import WrongInput
from limelight.models.embedder import EmbedderConfig
from limelight.models.sizes import Sizes
from limelight.tasks.task import (
    Answer,
    Example,
    Goal,
    Input,
    Scores,
    Task,
    TaskConfig,
    as_text,
    check_record_size,
    record_each,
    unlike_tokens,
)
from limelight.view.capture import capture
from limelight.view.record import Record, attention_maps, place_in_encoder

TOGETHER = 64  # texts that are encoded at once
SHOWN = 4  # numbers of a vector on a page
HINT = "train another task from it, such as `limelight train text --data new.csv --from RUN`"


class EmbedState(Config):
    """What prediction needs besides the weights."""

    reader: PretrainedTokenizer = Field(description="the tokenizer")
    width: int = Field(ge=1, description="the length of a vector")


class NoData(Config):
    """No data: the model was trained elsewhere."""


class Embed(Task[Dataset[Any]]):
    """The vector of a text; or for a line of two texts, separated by a tab or by |||, their similarity.

    The similarity is the cosine of the angle between both vectors.
    """

    reader: PretrainedTokenizer

    def __init__(self, state: EmbedState) -> None:
        self._state, self.reader = state, state.reader

    @property
    def goal(self) -> Goal:
        """None of these models is trained."""
        return Goal("loss", 0.0)

    @property
    def sizes(self) -> Sizes:
        """Data-dependent model dimensions."""
        return Sizes(outputs=self._state.width, vocabulary=self.reader.size, longest=self.reader.longest)

    @property
    def state(self) -> str:
        """JSON: what prediction needs besides the weights."""
        return self._state.model_dump_json()

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """The arguments with which the model is called."""
        return batch.inputs, batch.lengths

    def blank(self, count: int) -> Batch:
        """A batch of `count` texts without content."""
        empty = torch.zeros(count, self.reader.longest, dtype=torch.long)
        return Batch(empty, empty, torch.arange(count))

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """There is no loss."""
        refuse_training()

    @torch.no_grad()
    def predict(
        self, model: nn.Module, inputs: Sequence[Input], options: Any = None, *, first: int = 1
    ) -> list[Answer]:
        """A vector per line, or the similarity of its two texts; the answer to an empty line is empty."""
        texts = [_texts(given, number) for number, given in enumerate(inputs, first)]
        flat = [text for line in texts for text in line]
        vectors = iter(self.vectors(model.eval(), flat))
        answers = list[Answer]()
        for line in texts:
            found = [next(vectors) for _ in line]
            if len(found) == 2:
                likeness = float(cosine_similarity(found[0], found[1], dim=0))
                answers.append(Answer(f"{likeness:.4f}", number=likeness))
            else:
                answers.append(_answer(found[0]) if found else Answer(""))
        return answers

    def vectors(self, model: nn.Module, texts: Sequence[str]) -> Tensor:
        """-> (N, D), the vector of each text"""
        found = torch.zeros(len(texts), self._state.width)
        if not len(texts):
            return found
        rows, device = Ragged.from_rows([self.reader.encode(text) for text in texts]), _device(model)
        for index in even_batches(rows.lengths, TOGETHER):
            inputs, lengths = rows.pad(index)
            batch = Batch(inputs, index, index, lengths).to(device)
            found[index] = model(*self.arguments(batch)).float().cpu()
        return found

    def record(self, model: nn.Module, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        """The vector and all attention maps of each text; for an invalid input, its error."""
        model.eval()
        return record_each(inputs, lambda given, number: self._record(model, given, number))

    def _record(self, model: nn.Module, given: Input, number: int) -> Record:
        texts = _texts(given, number)
        if len(texts) != 1:
            allowed = "one text: the texts of a pair are read separately" if texts else "a text"
            raise WrongInput(f"input {number}: the line has {len(texts)} texts; allowed: {allowed}")
        row = self.reader.encode(texts[0])
        check_record_size(len(row), f"{len(row):,} tokens")
        found = capture(model, row.unsqueeze(0).to(_device(model)))
        names = tuple(as_text(token) for token in self.reader.tokens(texts[0]))
        maps, weights = attention_maps(found.attentions, place_in_encoder)
        if found.attentions[0].weights.shape[-1] == len(names) + 1:
            names = ("[class]", *names)
        numbers = ", ".join(f"{value:.4f}" for value in found.output[0, :SHOWN].tolist())
        return Record(
            given=as_text(texts[0]),
            answer=f"a vector of {self._state.width:,} numbers: {numbers}, …",
            sides={"source": names, "question": ("[question]",)},
            maps=maps,
            weights=weights,
        )

    def examples(self, dataset: Dataset[Any], split: str) -> Iterator[Example]:
        """There are no examples."""
        refuse_training()

    def inputs_in(self, path: Path) -> list[str]:
        """The text column of a table, both columns of a table of pairs, or the lines of another file."""
        if not is_table(path):
            return super().inputs_in(path)
        try:
            return find_column(path).read(path)
        except WrongInput:
            return find_columns_of_pairs(path).read(path)

    def unlike_training(self, inputs: Sequence[Input]) -> list[str]:
        """Warnings about truncated texts and unknown tokens."""
        texts = [text for number, line in enumerate(inputs) for text in _texts(line, number)]
        cut = sum(map(self.reader.is_truncated, texts))
        known = [
            list(zip(self.reader.tokens(text), self.reader.encode(text).tolist(), strict=True))
            for text in texts
        ]
        most = f"{self.reader.longest:,} tokens"
        truncated = [f"{cut:,} of {len(texts):,} texts were truncated to {most}"] if cut else []
        return truncated + unlike_tokens(known, self.reader.unknown)


def _answer(vector: Tensor) -> Answer:
    numbers = tuple(vector.tolist())
    return Answer(" ".join(f"{value:.6g}" for value in numbers), vector=numbers)


def _texts(given: Input, number: int) -> list[str]:
    """The texts of a line: one, two or none."""
    if not isinstance(given, str | Path):
        raise WrongInput(f"input {number}: this model reads text")
    line = str(given)
    if "\t" in line or TYPED in line:
        return list(split_pair(line))
    return [line] if line.strip() else []


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def refuse_training() -> NoReturn:
    """The exception for training or evaluating a model of vectors."""
    raise WrongInput(f"a model of vectors is neither trained nor evaluated; {HINT}")


class EmbedConfig(TaskConfig):
    """A vector for each text, from a model that was trained elsewhere."""

    models = (EmbedderConfig,)

    kind: Literal["embed"] = Field("embed", description="the kind of task")
    data: NoData = Field(NoData(), description="there is none")

    def load(self, seed: int) -> tuple[Embed, Dataset[Any]]:
        """These models are imported."""
        refuse_training()

    def restore(self, state: str) -> Embed:
        """Make the task from its state, for prediction."""
        return Embed(read_json(EmbedState, state, "data.json"))
