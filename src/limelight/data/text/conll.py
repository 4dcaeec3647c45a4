"""Sentences in columns, as in CoNLL files: one token per line, and a blank line after each sentence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from limelight.data.text.text_files import read_lines
from limelight.errors import WrongInput, wrong

DOCUMENT = "-DOCSTART-"  # begins a document in the files of CoNLL-2003
EXTENSIONS = (".conll", ".conllu", ".tsv", ".iob", ".iob2", ".bio", ".bioes", ".ner", ".pos", ".tags")
UNIVERSAL = 10  # columns of CoNLL-U
UNIVERSAL_TOKEN, UNIVERSAL_LABEL = 2, 4  # FORM and UPOS
ID = re.compile(r"\d+([-.]\d+)?", re.ASCII)  # of CoNLL-U: a word, a range of words, or an empty word


@dataclass(frozen=True)
class Sentence:
    """The tokens of a sentence with their labels; without labels if they were not read."""

    location: str  # file:line
    tokens: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def text(self) -> str:
        """The tokens, separated by spaces."""
        return " ".join(self.tokens)


@dataclass(frozen=True)
class ColumnFile:
    """The rows of a file by sentence, each with the number of its line; all have the same number of columns.

    Columns are separated by tabs if the first row has one, otherwise by white space. A line that begins with
    "#" is a comment, unless it has as many columns as the other lines: "#" can be a token. Lines with
    "-DOCSTART-" are left out. In CoNLL-U files, so are ranges of words ("1-2") and empty words ("8.1").
    """

    place: str
    width: int
    universal: bool  # whether it is a CoNLL-U file
    sentences: list[list[tuple[int, list[str]]]]

    @staticmethod
    def read(path: Path) -> "ColumnFile":
        """Read a file, plain or compressed."""
        place, lines = read_lines(path)
        first = next(
            (i for i, line in enumerate(lines, 1) if line.strip() and not line.startswith(("#", DOCUMENT))), 0
        )
        if not first:
            raise WrongInput(f"{place}: the file contains no token")
        separator = "\t" if "\t" in lines[first - 1] else None
        head = lines[first - 1].split(separator)
        universal = separator is not None and len(head) == UNIVERSAL and ID.fullmatch(head[0]) is not None
        sentences = list[list[tuple[int, list[str]]]]([[]])
        for number, line in enumerate(lines, 1):
            fields = [field.strip() for field in line.split(separator)]
            if not line.strip() or fields[0] == DOCUMENT:
                sentences.append([])
            elif len(fields) == len(head):
                if not (universal and not fields[0].isdecimal()):
                    sentences[-1].append((number, fields))
            elif not line.startswith("#"):
                as_before = "2 or more in each line" if len(head) == 1 else f"{len(head)}, as in line {first}"
                allowed = f"{as_before}; each line has one token with its label"
                raise wrong(f"{place}:{number}: the number of columns", len(fields), allowed)
        return ColumnFile(place, len(head), universal, [rows for rows in sentences if rows])

    def labelled(self, token: int, label: int) -> list[Sentence]:
        """The sentences with their labels; the columns are counted from 1, and 0 means the usual one."""
        if self.width < 2:
            allowed = "2 or more: a token, and its label in the last column"
            raise wrong(f"{self._start}: the number of columns", self.width, allowed)
        column = label or (UNIVERSAL_LABEL if self.universal else self.width)
        labels = list(self._column(column, "label"))
        return [
            Sentence(one.location, one.tokens, found)
            for one, found in zip(self.tokens(token), labels, strict=True)
        ]

    def tokens(self, token: int) -> list[Sentence]:
        """The sentences without labels. A file with a single column has only tokens."""
        column = 1 if self.width == 1 else token or (UNIVERSAL_TOKEN if self.universal else 1)
        return [
            # Some languages have words of several parts: "10 000". White space separates tokens here.
            Sentence(f"{self.place}:{rows[0][0]}", tuple("_".join(one.split()) for one in found), ())
            for rows, found in zip(self.sentences, self._column(column, "token"), strict=True)
        ]

    @property
    def _start(self) -> str:
        return f"{self.place}:{self.sentences[0][0][0]}"

    def _column(self, number: int, name: str) -> Iterator[tuple[str, ...]]:
        """One column of each sentence."""
        if number > self.width:
            allowed = f"1 to {self.width}, the number of columns"
            raise wrong(f"{self._start}: task.data.{name}", number, allowed)
        for rows in self.sentences:
            for line, fields in rows:
                if not fields[number - 1]:
                    raise WrongInput(f"{self.place}:{line}: the {name} is empty")
            yield tuple(fields[number - 1] for _, fields in rows)


def has_columns(path: Path) -> bool:
    """Whether a file has one token per line: by its extension, or because a .txt file looks like one.

    Then blank lines separate its sentences, and all other lines have the same number of columns: one, or
    several with tabs between them.
    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(EXTENSIONS):
        return True
    lines = read_lines(path)[1]
    tokens = [line for line in lines if line.strip() and not line.startswith("#")]
    widths = {len(line.split("\t") if "\t" in line else line.split()) for line in tokens}
    return len(tokens) < len(lines) and len(widths) == 1 and (widths == {1} or "\t" in tokens[0])
