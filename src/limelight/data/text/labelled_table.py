"""Labelled rows of a user's CSV or TSV files: what tables of texts and of pairs share."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, DataConfig, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.splits import (
    FILE_NAMES,
    check_shares,
    choose,
    count_classes,
    cover_labels,
    hold_out,
    missing_shares,
    shuffle_groups,
)
from limelight.data.text.delimited import MOST_NAMED, SEPARATORS, DelimitedFile, Row, short
from limelight.data.text.ngrams import WordNgrams
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.symbols import Answers
from limelight.data.text.text_column import Column
from limelight.data.text.text_pair import TextPair
from limelight.data.text.text_vocabulary import (
    TextBytes,
    TextCharacters,
    TextSubwords,
    TextVocabulary,
    TextWords,
)
from limelight.data.text.vocabulary import Characters, Subwords, Words, build_vocabulary
from limelight.errors import WrongInput, wrong
from limelight.randomness import generator

LABEL_NAMES = ("label", "class", "target", "sentiment", "category", "rating", "score")
CHOOSE = "choose with --set task.data.text=NAME --set task.data.label=NAME"
YES_NO = {"yes": 1.0, "true": 1.0, "1": 1.0, "no": 0.0, "false": 0.0, "0": 0.0}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
LARGEST = 1e30  # float32 can represent it, and differences of such numbers
TextReader = (
    Words
    | WordNgrams
    | Characters
    | Subwords
    | TextBytes
    | TextCharacters
    | TextSubwords
    | TextWords
    | PretrainedTokenizer
    | TextPair
)
MOST_CLASSES = 20  # more distinct integers are treated as numbers


class LabelledTable(DataConfig, ABC):
    """A file whose rows contain texts and a label, or a folder with train, dev and test files.

    A single file is split at random; rows with the same text stay in the same split. In a folder, examples
    are held out from the train file only if there is no dev (valid, val, validation) file; with a dev file
    but without a test file there is no test split.

    With answer "auto", labels are numbers if all of them are numeric and either some are not integers or
    more than 20 are distinct; otherwise each distinct label is a class. "yes-no" is never chosen by "auto".

    Without a header, the columns are named "column 1", "column 2" and so on. With header "auto", the first
    row is a header if it contains a common name such as "text" or "label", or if its label is not a number
    and does not occur in any other row.
    """

    path: str = Field("", description="a .csv, .tsv or .txt file, or a folder with train, dev and test files")
    label: str = Field("", description="name of the label column; empty: detect it")
    header: Literal["auto", "yes", "no"] = Field(
        "auto", description="whether the first row contains the names of the columns; auto: detect it"
    )
    vocabulary: Literal["words", "ngrams", "characters", "subwords"] = Field(
        "words", description="kind of tokens; ngrams: words, each with its n-grams, for model.linear"
    )
    vocabulary_size: int = Field(
        20_000, ge=2, le=1_000_000, description="maximum number of tokens; with ngrams, of words"
    )
    rarest: int = Field(
        2,
        ge=1,
        le=1_000_000,
        description="minimum number of occurrences of a known word or character; no effect on subwords",
    )
    longest: int = Field(
        200, ge=1, le=100_000, description="maximum number of tokens per text; longer texts are truncated"
    )
    validation: float = Field(0.1, gt=0, lt=1, description="share of the texts held out for validation")
    test: float = Field(
        0.1, ge=0, lt=1, description="share of the texts held out for testing; 0: no test split"
    )
    answer: Literal["auto", "class", "yes-no", "number"] = Field(
        "auto", description="kind of the labels; auto: detect it"
    )

    @model_validator(mode="after")
    def _leaves_training_examples(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int, reader: TextReader | None = None) -> SequenceData:
        """Read the files, hold out splits, build the vocabulary from training and encode all texts.

        With a `reader`, its vocabulary is used, and none is built; if it has words of running text, the
        n-grams of the texts may be added.
        """
        if not self.path:
            raise WrongInput("task.data.path is empty; pass a file with --data")
        splits, notes, column = self._read_splits(seed)
        for name, rows in splits.items():
            if not rows:
                why = f" ({'; '.join(notes)})" if notes else ""
                raise WrongInput(f"{self.path}: too few rows: no row is left for the {name} split{why}")
        answers = self._find_answers([row.label for row in splits["train"]])
        targets = {name: _targets(rows, answers) for name, rows in splits.items()}
        if len(targets["train"].unique()) < 2:
            label = splits["train"][0].label
            raise WrongInput(
                f"{self.path}: all training labels are {short(label)}; "
                "at least two different labels are needed"
            )
        if answers.kind == "number":
            numbers = targets["train"].double()
            scale = {"mean": float(numbers.mean()), "deviation": float(numbers.std(correction=0))}
            answers = answers.model_copy(update=scale)
        notes += _describe_labels(answers, targets["train"], column)
        texts = [row.text for row in splits["train"]]
        if reader is None:
            return self._encode(splits, self._build_vocabulary(texts), answers, column, notes)
        if isinstance(reader, PretrainedTokenizer):
            reader = reader.shortened(self.longest)
        added = ""
        if self.vocabulary == "ngrams" and isinstance(reader, TextWords):
            reader = WordNgrams.of(reader.words, texts, self.vocabulary_size, self.rarest)
            added = f", with {reader.total - reader.size:,} n-grams of these texts"
        notes.append(f"vocabulary: the {reader.size:,} {_unit(reader)} of the run to start from{added}")
        return self._encode(splits, reader, answers, column, notes)

    def load_other(self, path: Path, reader: TextReader, answers: Answers, column: Column) -> SequenceData:
        """Other rows than those of training, encoded in the same way; a single file is the split "new"."""
        files = _find_files(path) if path.is_dir() else {"new": path}
        splits, notes = dict[str, list[Row]](), list[str]()
        for name, file in files.items():
            table = DelimitedFile.read(file)
            there = column.in_file(table) if column.name else self._column_of(table)
            label = column.label or self.label if there == column else ""
            wanted = self._with_columns(there, label)
            splits[name], dropped = table.rows(there.header, *wanted._find_columns(table, there.header))
            notes.append(f"{file.name}: {len(splits[name]):,} rows kept, {dropped:,} dropped")
            if not splits[name]:
                raise WrongInput(f"{file}: no row has a text")
        return self._encode(splits, reader, answers, column, notes)

    def _encode(
        self,
        splits: dict[str, list[Row]],
        reader: TextReader,
        answers: Answers,
        column: Column,
        notes: list[str],
    ) -> SequenceData:
        targets = {name: _targets(rows, answers) for name, rows in splits.items()}
        texts = {name: [reader.encode(row.text) for row in rows] for name, rows in splits.items()}
        cut = sum(
            self._is_truncated(row.text, text, reader)
            for name, rows in splits.items()
            for row, text in zip(rows, texts[name], strict=True)
        )
        if cut:
            notes.append(f"{cut:,} texts truncated to {self.longest:,} {_unit(reader)}")
        examples = {
            name: Examples(Ragged.from_rows([text[: self._most_items] for text in split]), targets[name])
            for name, split in texts.items()
        }
        lines = {
            name: [row.text if isinstance(reader, TextPair) else " ".join(row.text.split()) for row in rows]
            for name, rows in splits.items()
        }
        return SequenceData(examples, reader, answers, tuple(notes), self._most_items, lines, column)

    def _read_splits(self, seed: int) -> tuple[dict[str, list[Row]], list[str], Column]:
        files = _find_files(Path(self.path))
        tables = {name: DelimitedFile.read(path) for name, path in files.items()}
        column = self._column_of(tables["train"])
        splits, notes = {}, []
        for name, table in tables.items():
            rows, dropped = table.rows(column.header, column.texts, column.label)
            notes.append(f"{table.path.name}: {len(rows):,} rows kept, {dropped:,} dropped")
            splits[name] = [rows[i] for i in choose([row.label for row in rows], self.limit, seed)]
            notes += [f"limit: {len(splits[name]):,} of them are used"] * (len(splits[name]) < len(rows))
        shares = missing_shares(files, self.validation, self.test)
        if shares:
            splits |= hold_out(_shuffle_rows(splits["train"], seed), shares)
        texts = " and ".join(map(short, column.texts))
        notes.append(
            f"text column{'s' * (len(column.texts) > 1)}: {texts}, label column: {short(column.label)}"
        )
        return {name: splits[name] for name in SPLITS if name in splits}, notes, column

    def _column_of(self, table: DelimitedFile) -> Column:
        """The columns of the texts and of the labels."""
        header = self._has_header(table)
        (name, *second), label = self._find_columns(table, header)
        return Column(name, header, label, *second)

    def _has_header(self, table: DelimitedFile) -> bool:
        if self.header != "auto":
            return self.header == "yes"
        chosen = {*self._chosen_texts, self.label} - {""}
        if chosen:
            return not chosen <= {*table.names(header=False)}
        first, *others = (fields for _, fields in table.records)
        if self._has_usual_names(first):
            return True
        shortest = min(range(len(first)), key=lambda i: sum(len(fields[i]) for fields in others))
        labels = [fields[shortest] for fields in others]  # the column with the shortest fields
        are_labels = len(set(labels)) < len(labels) or None not in map(_number, labels)
        return are_labels and _number(first[shortest]) is None and first[shortest] not in labels

    @property
    @abstractmethod
    def _chosen_texts(self) -> tuple[str, ...]:
        """The text columns that the settings name; empty names are to be detected."""

    @property
    def _most_items(self) -> int:
        """The maximum length of a sequence."""
        return self.longest

    @abstractmethod
    def _with_columns(self, column: Column, label: str) -> Self:
        """The same settings with the columns of another file."""

    @abstractmethod
    def _has_usual_names(self, names: Sequence[str]) -> bool:
        """Whether one of the names is a common one of a text column or label column."""

    @abstractmethod
    def _find_columns(self, table: DelimitedFile, header: bool) -> tuple[tuple[str, ...], str]:
        """The names of the text columns and of the label column."""

    def _is_truncated(self, text: str, row: Tensor, reader: TextReader) -> bool:
        """Whether a text is too long, given its items."""
        return (
            reader.is_truncated(text) if isinstance(reader, PretrainedTokenizer) else len(row) > self.longest
        )

    def _find_answers(self, labels: Sequence[str]) -> Answers:
        kind = self.answer
        if kind == "auto":
            numbers = {_number(label) for label in labels}
            integers = all(number is not None and number.is_integer() for number in numbers)
            few = integers and len(numbers) <= MOST_CLASSES
            kind = "class" if None in numbers or few else "number"
        if kind == "class":
            return Answers(kind=kind, names=tuple(sorted(set(labels))))
        return Answers(kind=kind, names=("no", "yes") if kind == "yes-no" else ())

    def _build_vocabulary(self, texts: Sequence[str]) -> TextReader:
        try:
            if self.vocabulary == "ngrams":
                return WordNgrams.build(texts, self.vocabulary_size, self.rarest)
            return build_vocabulary(self.vocabulary, texts, self.vocabulary_size, self.rarest)
        except WrongInput as error:
            raise WrongInput(f"{self.path}: {error}") from None


def _unit(reader: TextReader) -> str:
    if isinstance(reader, TextPair):
        return _unit(reader.vocabulary)
    if isinstance(reader, TextVocabulary):
        return reader.unit
    return "words" if reader.kind == "ngrams" else reader.kind


def _find_files(path: Path) -> dict[str, Path]:
    """The file of each split; a single file is for training."""
    if not path.is_dir():
        return {"train": path}
    found = {}
    for split, names in FILE_NAMES.items():
        files = sorted(file for file in path.iterdir() if file.stem in names and file.suffix in SEPARATORS)
        if len(files) > 1:
            raise WrongInput(f"{path}: both {files[0].name} and {files[1].name} exist; keep one of them")
        if files:
            found[split] = files[0]
    if "train" not in found:
        raise WrongInput(f"{path}: the folder contains no train.csv, train.tsv or train.txt")
    return found


def _shuffle_rows(rows: list[Row], seed: int) -> list[list[Row]]:
    """Rows grouped by text in random order; every label occurs in the first groups, those of training."""
    groups = shuffle_groups(rows, lambda row: row.text, generator(seed, "rows"))
    return cover_labels(groups, lambda row: [row.label])


def _describe_labels(answers: Answers, targets: Tensor, column: Column) -> list[str]:
    """Notes on the labels of training: the classes, or the range of the numbers."""
    if answers.names:
        return count_classes(answers.names, targets.long().tolist())
    low, high = targets.aminmax()
    notes = [f"labels: numbers from {low:g} to {high:g} in training"]
    if len(targets.unique()) == len(targets) and bool((targets == targets.round()).all()):
        unusual = f"all labels are different integers; is {short(column.label)} an id?"
        notes.append(f"warning: {unusual} {CHOOSE}")
    return notes


def _targets(rows: list[Row], answers: Answers) -> Tensor:
    """-> (N)

    The id of the class, 1 for yes and 0 for no, or the number in its original unit.
    """
    numbers: dict[str, float] = {name: i for i, name in enumerate(answers.names)}
    known = ", ".join(answers.names[:MOST_NAMED])
    found = []
    for row in rows:
        if answers.kind == "class":
            value, allowed = numbers.get(row.label), f"a label that occurs in training: {known}"
        elif answers.kind == "yes-no":
            value, allowed = YES_NO.get(row.label.lower()), "yes or no, true or false, 1 or 0"
        else:
            value, allowed = _number(row.label), "a number"
        if value is None:
            raise wrong(f"{row.location}: the label", short(row.label), allowed)
        found.append(value)
    return torch.tensor(found)


def _number(label: str) -> float | None:
    value = float(label) if NUMBER.fullmatch(label) else None
    return value if value is not None and abs(value) <= LARGEST else None


def only(found: Iterable[int]) -> int | None:
    """The only element, or None if there are several or none."""
    elements = list(found)
    return elements[0] if len(elements) == 1 else None
