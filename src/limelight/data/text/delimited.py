"""Files of rows and columns, read: CSV, TSV, and what people call so."""

import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from limelight.data.text.text_files import read_text
from limelight.errors import WrongInput, unknown, wrong

SEPARATORS = {".csv": ",\t;", ".tsv": "\t", ".txt": "\t"}  # by extension; the first that fits
QUOTED = re.compile(r'"((?:[^"]|"")*)"')
LOOKED_AT = 20  # rows, to find the separator
csv.field_size_limit(2**31 - 1)  # a long document is one field
MOST_NAMED, SHORT = 30, 40  # what a message has room for: names, characters


@dataclass(frozen=True)
class Row:
    where: str  # file:line
    text: str
    label: str


@dataclass(frozen=True)
class Sheet:
    """The records of a file, each with the line it begins on; all have the same number of fields."""

    path: Path
    records: list[tuple[int, list[str]]]
    blank: int

    @staticmethod
    def read(path: Path, *, least: int = 2) -> "Sheet":
        """The rows of a file, each with at least so many columns."""
        content = read_text(path)
        separator = _find_separator(path, content)
        split = [
            (line, [field.strip() for field in fields]) for line, fields in _split(path, content, separator)
        ]
        records = [(line, fields) for line, fields in split if any(fields)]
        if not records:
            raise WrongInput(f"{path}: the file is empty")
        width = len(records[0][1])
        allowed = (
            f"{width}, as in the first row"
            if width > 1
            else "2 or more, with a comma, tab or semicolon between"
        )
        for line, fields in records:
            if width < least or len(fields) != width:
                raise wrong(f"{path}:{line}: the number of fields", len(fields), allowed)
        return Sheet(path, records, blank=len(split) - len(records))

    @property
    def place(self) -> str:
        return f"{self.path}:{self.records[0][0]}"

    def names(self, header: bool) -> list[str]:
        first = self.records[0][1]
        return first if header else [f"column {i}" for i in range(1, len(first) + 1)]

    def column(self, header: bool, name: str) -> int:
        names = self.names(header)
        if name not in names:
            raise WrongInput(f"{self.place}: {unknown('column', name, names[:MOST_NAMED])}")
        if names.count(name) > 1:
            raise WrongInput(f"{self.place}: {names.count(name)} columns are called {short(name)}")
        return names.index(name)

    def rows(self, header: bool, text_name: str, label_name: str) -> tuple[list[Row], int]:
        """Those that have a text, and how many have none."""
        text, label = self.column(header, text_name), self.column(header, label_name)
        records = self.records[header:]
        kept = [
            Row(f"{self.path}:{line}", fields[text], fields[label])
            for line, fields in records
            if fields[text]
        ]
        for row in kept:
            if not row.label:
                raise WrongInput(f"{row.where}: the label is empty")
        return kept, self.blank + len(records) - len(kept)


def _split(path: Path, content: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Records with their first lines. Lines end with a line feed and with nothing else.

    Between tabs, quotes are text, unless they stand around a whole field and each one inside is doubled.
    """
    lines = content.removesuffix("\n").split("\n")
    if separator == "\t":
        for number, line in enumerate(lines, 1):
            whole = [(field, QUOTED.fullmatch(field)) for field in line.split("\t")]
            yield number, [quoted[1].replace('""', '"') if quoted else field for field, quoted in whole]
        return
    # For the csv module a carriage return ends a line; NUL stands in for it, as no file has that here.
    reader = csv.reader((f"{line}\n".replace("\r", "\0") for line in lines), delimiter=separator, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, [field.replace("\0", "\r") for field in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            hint = "a quote inside a quoted text is written twice"
            raise WrongInput(f"{path}:{number}: {error}; {hint}") from None


def _find_separator(path: Path, content: str) -> str:
    """The first that gives every row as many fields; else the one that gives the first row most."""
    candidates = SEPARATORS.get(path.suffix.lower(), SEPARATORS[".csv"])
    first = dict.fromkeys(candidates, 0)
    for separator in candidates:
        widths = []
        with suppress(WrongInput):
            for _, fields in islice(_split(path, content, separator), LOOKED_AT):
                widths += [len(fields)] * any(fields)
        if widths and min(widths) == max(widths) > 1:
            return separator
        first[separator] = widths[0] if widths else 0
    return max(candidates, key=lambda separator: first[separator])


def short(text: str) -> str:
    return repr(text if len(text) <= SHORT else text[: SHORT - 1] + "…")
