"""Data sets: examples by split, and a digest of them all."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Generic, Protocol, TypeVar

from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.batching import Batch, Examples, epoch_batches
from limelight.data.ragged import Ragged
from limelight.data.text.affixes import Affixes
from limelight.data.text.ngrams import WordNgrams
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.symbols import Answers, Symbols, Vectors
from limelight.data.text.text_column import Column
from limelight.data.text.text_pair import TextPair
from limelight.data.text.text_vocabulary import TextBytes, TextCharacters, TextSubwords, TextWords
from limelight.data.text.vocabulary import Characters, Subwords, Words
from limelight.errors import unknown

# A larger number is a typing error: the memory check rejects far smaller ones.
ExampleCount = Annotated[int, Field(ge=1, le=1_000_000_000)]
SPLITS = ("train", "validation", "test")

# How a line of text is encoded as a model input, and decoded.
Reader = Annotated[
    Symbols
    | Vectors
    | Words
    | WordNgrams
    | Characters
    | Subwords
    | Affixes
    | TextPair
    | TextBytes
    | TextCharacters
    | TextSubwords
    | TextWords
    | PretrainedTokenizer,
    Field(discriminator="kind"),
]


class DataConfig(Config):
    """What the settings of all data sets have in common."""

    limit: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="at most this many examples per split, chosen at random before shares are held out, for "
        "a quick try; 0: all",
    )

    def at_most(self, count: int) -> int:
        """The number of examples of a split that would have `count` without a limit."""
        return min(count, self.limit) if self.limit else count


class Split(Protocol):
    """The examples of one split."""

    def __len__(self) -> int: ...

    def batch(self, index: Tensor) -> Batch:
        """The examples that `index` (B) selects."""


E = TypeVar("E", bound=Split)


class Dataset(ABC, Generic[E]):
    """Examples by split: train, validation and, for most data sets, test."""

    splits: dict[str, E]
    notes: tuple[str, ...]  # what a user should know about the data

    @property
    @abstractmethod
    def digest(self) -> str:
        """A checksum of all examples: a run is resumed only on the data it began with."""

    @abstractmethod
    def lengths(self, split: str) -> Tensor:
        """-> (N), the length of each example; examples of similar length share a batch"""

    def examples(self, split: str) -> E:
        """The examples of a split; an unknown name is refused."""
        if split not in self.splits:
            raise unknown("split", split, self.splits)
        return self.splits[split]

    def batch(self, split: str, index: Tensor) -> Batch:
        """The examples of a split that `index` (B) selects."""
        return self.examples(split).batch(index)

    def epoch(self, batch: int, seed: int, number: int) -> Sequence[Tensor]:
        """The indices of the training examples in each batch of an epoch, a function of its arguments."""
        return epoch_batches(self.lengths("train"), batch, seed, number)

    @property
    def held_out(self) -> str:
        """The split that is used least: test, or validation where there is no test split."""
        return tuple(self.splits)[-1]


@dataclass(frozen=True)
class SequenceData(Dataset[Examples]):
    """Sequences with an answer each, or with one answer per item."""

    splits: dict[str, Examples]
    reader: Reader
    answers: Answers
    notes: tuple[str, ...] = ()
    cut: int | None = None  # maximum length: longer sequences were truncated
    texts: dict[str, list[str]] = field(default_factory=dict)  # the original texts by split, if there are any
    column: Column | None = None  # the text column, if they were read from a CSV or TSV file

    def lengths(self, split: str) -> Tensor:
        """-> (N), the length of each sequence"""
        return self.examples(split).inputs.lengths

    def text(self, split: str, number: int) -> str:
        """The original text of an example; empty where it was not read from a text."""
        texts = self.texts.get(split)
        return texts[number] if texts else ""

    @cached_property
    def digest(self) -> str:
        """A checksum of all examples."""
        checksum = hashlib.sha256(f"{self.reader.model_dump_json()}{self.answers.model_dump_json()}".encode())
        for name, examples in self.splits.items():
            checksum.update(name.encode())
            for part in (examples.inputs, examples.targets):
                tensors = (part.values, part.offsets) if isinstance(part, Ragged) else (part,)
                for tensor in tensors:
                    checksum.update(tensor.contiguous().numpy().tobytes())
        return checksum.hexdigest()
