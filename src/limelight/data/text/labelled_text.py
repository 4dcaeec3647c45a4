"""Texts with a label each, from a user's own CSV or TSV files."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config
from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.splits import FILE_NAMES, check_shares, draw_groups, hold_out, missing_shares
from limelight.data.text.delimited import MOST_NAMED, SEPARATORS, Row, Sheet, short
from limelight.data.text.symbols import Answers
from limelight.data.text.text_files import read_text
from limelight.data.text.vocabulary import Characters, Subwords, Words, build_vocabulary
from limelight.errors import WrongInput, wrong
from limelight.randomness import generator

TEXT_NAMES = ("text", "sentence", "review", "comment", "message", "tweet", "phrase", "content")
LABEL_NAMES = ("label", "class", "target", "sentiment", "category", "rating", "score")
YES_NO = {"yes": 1.0, "true": 1.0, "1": 1.0, "no": 0.0, "false": 0.0, "0": 0.0}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
LARGEST = 1e30  # float32 holds it, and differences of such numbers
ALONE = "give the texts alone, one per line, in a .txt file or on stdin"
MOST_CLASSES = 20  # of integers: more of them are numbers


class Table(Config):
    """A file whose rows have a text and a label, or a folder of train, dev and test files.

    Of a file, shares of the texts are held out; rows with one and the same text stay together. A folder's
    train file is held out from only where it has no dev (valid, val, validation) file; without a test file
    beside a dev file there is no test split.

    With answer "auto", labels are numbers if all of them are numbers and some are no integers or more than
    20 differ; otherwise each label is a class. Yes or no must be asked for.

    Columns without a header are called "column 1", "column 2" and so on. With header "auto", the first row
    is a header if it has a name that is looked for, or if its label is no number and stands in no other row.
    """

    kind: Literal["table"] = "table"
    path: str = ""
    text: str = ""
    label: str = ""
    header: Literal["auto", "yes", "no"] = "auto"
    vocabulary: Literal["words", "characters", "subwords"] = "words"
    vocabulary_size: int = Field(20_000, ge=2, le=1_000_000)
    rarest: int = Field(
        2, ge=1, le=1_000_000
    )  # times that a word or character must stand in training to be known
    longest: int = Field(200, ge=1, le=100_000)  # items: what is beyond is cut off
    validation: float = Field(0.1, gt=0, lt=1)
    test: float = Field(0.1, ge=0, lt=1)
    answer: Literal["auto", "class", "yes-no", "number"] = "auto"

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int) -> SequenceData:
        if not self.path:
            raise WrongInput("task.data.path is empty: give a file with --data")
        splits, notes, column = self._read_splits(seed)
        for name, rows in splits.items():
            if not rows:
                raise WrongInput(f"{self.path}: too few rows: none is left for {name}")
        answers = self._find_answers([row.label for row in splits["train"]])
        targets = {name: _targets(rows, answers) for name, rows in splits.items()}
        if len(targets["train"].unique()) < 2:
            label = splits["train"][0].label
            raise WrongInput(f"{self.path}: every label of training is {short(label)}; two must differ")
        if answers.kind == "number":
            numbers = targets["train"].double()
            scale = {"mean": float(numbers.mean()), "deviation": float(numbers.std(correction=0))}
            answers = answers.model_copy(update=scale)
        several = f"{len(answers.names)} classes" if answers.kind == "class" else answers.kind
        notes.append(f"answers: {several}")
        reader = self._build_vocabulary([row.text for row in splits["train"]])
        texts = {name: [reader.encode(row.text) for row in rows] for name, rows in splits.items()}
        cut = sum(len(text) > self.longest for split in texts.values() for text in split)
        if cut:
            notes.append(f"{cut:,} texts cut to {self.longest:,} {self.vocabulary}")
        examples = {
            name: Examples(Ragged.of([text[: self.longest] for text in split]), targets[name])
            for name, split in texts.items()
        }
        lines = {name: [" ".join(row.text.split()) for row in rows] for name, rows in splits.items()}
        return SequenceData(
            examples, reader, answers, tuple(notes), self.longest, lines, column.name, column.header
        )

    def _read_splits(self, seed: int) -> tuple[dict[str, list[Row]], list[str], "Column"]:
        files = _find_files(Path(self.path))
        sheets = {name: Sheet.read(path) for name, path in files.items()}
        header = self._has_header(sheets["train"])
        columns = self._find_columns(sheets["train"], header)
        splits, notes = {}, []
        for name, sheet in sheets.items():
            splits[name], dropped = sheet.rows(header, *columns)
            notes.append(f"{sheet.path.name}: {len(splits[name]):,} rows kept, {dropped:,} dropped")
        shares = missing_shares(files, self.validation, self.test)
        if shares:
            splits |= hold_out(_draw_rows(splits["train"], seed), shares)
        notes.append(f"text is {short(columns[0])}, label is {short(columns[1])}")
        found = {name: splits[name] for name in SPLITS if name in splits}
        return found, notes, Column(columns[0], header)

    def _has_header(self, sheet: Sheet) -> bool:
        if self.header != "auto":
            return self.header == "yes"
        if self.text or self.label:
            return not {self.text, self.label} <= {"", *sheet.names(header=False)}
        first, *others = (fields for _, fields in sheet.records)
        if {name.lower() for name in first} & {*TEXT_NAMES, *LABEL_NAMES}:
            return True
        short = min(range(len(first)), key=lambda i: sum(len(fields[i]) for fields in others))
        below = [fields[short] for fields in others]
        known = len(set(below)) < len(below) or None not in map(_number, below)
        return known and _number(first[short]) is None and first[short] not in below

    def _find_columns(self, sheet: Sheet, header: bool) -> tuple[str, str]:
        """The names of the columns of texts and of labels."""
        names = sheet.names(header)
        text, label = (
            sheet.column(header, wanted)
            if wanted
            else _only(i for i, name in enumerate(names) if name.lower() in known)
            for wanted, known in ((self.text, TEXT_NAMES), (self.label, LABEL_NAMES))
        )
        if len(names) == 2:
            if text is None and label is None:
                lengths = [sum(len(fields[i]) for _, fields in sheet.records[header:]) for i in (0, 1)]
                text = lengths.index(max(lengths)) if lengths[0] != lengths[1] else None
            text = 1 - label if text is None and label is not None else text
            label = 1 - text if label is None and text is not None else label
        if text is None or label is None or text == label:
            there = ", ".join(map(short, names[:MOST_NAMED]))
            say = "say it with --set task.data.text=NAME --set task.data.label=NAME"
            raise WrongInput(
                f"{sheet.place}: which column is text, which is label? there are: {there}; {say}"
            )
        return names[text], names[label]

    def _find_answers(self, labels: Sequence[str]) -> Answers:
        kind = self.answer
        if kind == "auto":
            numbers = {_number(label) for label in labels}
            whole = all(number is not None and number.is_integer() for number in numbers)
            few = whole and len(numbers) <= MOST_CLASSES
            kind = "class" if None in numbers or few else "number"
        if kind == "class":
            return Answers(kind=kind, names=tuple(sorted(set(labels))))
        return Answers(kind=kind, names=("no", "yes") if kind == "yes-no" else ())

    def _build_vocabulary(self, texts: Sequence[str]) -> Words | Characters | Subwords:
        try:
            return build_vocabulary(self.vocabulary, texts, self.vocabulary_size, self.rarest)
        except WrongInput as error:
            raise WrongInput(f"{self.path}: {error}") from None


@dataclass(frozen=True)
class Column:
    """The column that texts stand in; without a header it is called "column 1", "column 2" and so on."""

    name: str
    header: bool

    def read(self, path: Path) -> list[str]:
        """The texts of another file, one per row. A file with a single column has nothing else."""
        sheet = Sheet.read(path, least=1)
        names = sheet.names(self.header)
        if len(names) == 1 and names != [self.name]:  # texts without a header
            return [fields[0] for _, fields in sheet.records]
        try:
            place = sheet.column(self.header, self.name)
        except WrongInput as refusal:
            raise WrongInput(f"{refusal}; or {ALONE}") from None
        return [fields[place] for _, fields in sheet.records[self.header :]]


def is_table(path: Path) -> bool:
    """Whether a file has columns, by its extension; a .txt file has them if its first line has a tab."""
    if path.suffix.lower() == ".txt":
        return "\t" in read_text(path).split("\n", 1)[0]
    return path.suffix.lower() in SEPARATORS


def find_column(path: Path) -> Column:
    """By its name, where nothing else is known of a table."""
    sheet = Sheet.read(path, least=1)
    found = [name for name in sheet.names(header=True) if name.lower() in TEXT_NAMES]
    if len(found) != 1:
        raise WrongInput(f"{sheet.place}: which column is the text? call it 'text', or {ALONE}")
    return Column(found[0], header=True)


def _find_files(path: Path) -> dict[str, Path]:
    """Split -> file; a file alone is for training."""
    if not path.is_dir():
        return {"train": path}
    found = {}
    for split, names in FILE_NAMES.items():
        there = sorted(file for file in path.iterdir() if file.stem in names and file.suffix in SEPARATORS)
        if len(there) > 1:
            raise WrongInput(f"{path}: both {there[0].name} and {there[1].name} are there; one is enough")
        if there:
            found[split] = there[0]
    if "train" not in found:
        raise WrongInput(f"{path}: the folder has no train.csv, train.tsv or train.txt")
    return found


def _draw_rows(rows: list[Row], seed: int) -> list[list[Row]]:
    """Those with one text together; the first text of each label comes first."""
    drawn = draw_groups(rows, lambda row: row.text, generator(seed, "rows"))
    # Training is the front of the line: what it has not, it cannot learn.
    seen: set[str] = set()
    first, others = list[list[Row]](), list[list[Row]]()
    for group in drawn:
        labels = {row.label for row in group}
        (others if labels <= seen else first).append(group)
        seen |= labels
    return first + others


def _targets(rows: list[Row], answers: Answers) -> Tensor:
    """-> (N), the number of a class, 1 for yes and 0 for no, or a number in its own unit"""
    numbers: dict[str, float] = {name: i for i, name in enumerate(answers.names)}
    found = []
    for row in rows:
        if answers.kind == "class":
            value, allowed = numbers.get(row.label), "a label that stands in training"
        elif answers.kind == "yes-no":
            value, allowed = YES_NO.get(row.label.lower()), "yes or no, true or false, 1 or 0"
        else:
            value, allowed = _number(row.label), "a number"
        if value is None:
            raise wrong(f"{row.where}: the label", short(row.label), allowed)
        found.append(value)
    return torch.tensor(found)


def _number(label: str) -> float | None:
    value = float(label) if NUMBER.fullmatch(label) else None
    return value if value is not None and abs(value) <= LARGEST else None


def _only(found: Iterable[int]) -> int | None:
    """The one that there is, if there is one."""
    several = list(found)
    return several[0] if len(several) == 1 else None
