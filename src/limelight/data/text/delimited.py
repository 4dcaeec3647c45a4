"""Read CSV and TSV files, and text files with tabs."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from limelight.data.text.text_files import read_text
from limelight.data.text.text_pair import join_pair
from limelight.errors import WrongInput, unknown, wrong

SEPARATORS = {".csv": ",\t;", ".tsv": "\t", ".txt": "\t"}  # candidates by extension, in order
QUOTED = re.compile(r'"((?:[^"]|"")*)"')
INSPECTED = 20  # rows that are inspected to find the separator
csv.field_size_limit(2**31 - 1)  # a field may be a long document
MOST_NAMED, SHORT = 30, 40  # maximum names in a message, maximum characters of a quoted text


@dataclass(frozen=True)
class Row:
    """A text, or two with a tab between them, with the label."""

    location: str  # file:line
    text: str
    label: str


@dataclass(frozen=True)
class DelimitedFile:
    """The records of a file, each with the number of its first line; all have the same number of fields."""

    path: Path
    records: list[tuple[int, list[str]]]
    blank: int  # number of blank lines

    @staticmethod
    def read(path: Path, *, min_columns: int = 2, keep_blank: bool = False) -> "DelimitedFile":
        """Read a file with at least `min_columns` columns; the separator is detected.

        Rows without content are dropped, unless they are to be kept.
        """
        content = read_text(path)
        separator = _find_separator(path, content)
        split = [
            (line, [field.strip() for field in fields]) for line, fields in _split(path, content, separator)
        ]
        records = [(line, fields) for line, fields in split if any(fields)]
        if not records:
            raise WrongInput(f"{path}: the file is empty")
        width = len(records[0][1])
        if keep_blank:
            records = [(line, fields if any(fields) else [""] * width) for line, fields in split]
        allowed = (
            f"{width}, as in the first row"
            if width > 1
            else "2 or more, separated by a comma, tab or semicolon"
        )
        for line, fields in records:
            if width < min_columns or len(fields) != width:
                raise wrong(f"{path}:{line}: the number of fields", len(fields), allowed)
        return DelimitedFile(path, records, blank=len(split) - len(records))

    @property
    def location(self) -> str:
        """The file and its first line, for error messages."""
        return f"{self.path}:{self.records[0][0]}"

    def names(self, header: bool) -> list[str]:
        """The names of the columns; without a header "column 1", "column 2" and so on."""
        first = self.records[0][1]
        return first if header else [f"column {i}" for i in range(1, len(first) + 1)]

    def column(self, header: bool, name: str) -> int:
        """The index of the column with this name."""
        names = self.names(header)
        if name not in names:
            raise WrongInput(f"{self.location}: {unknown('column', name, names[:MOST_NAMED])}")
        if names.count(name) > 1:
            raise WrongInput(f"{self.location}: {names.count(name)} columns are named {short(name)}")
        return names.index(name)

    def rows(self, header: bool, text_names: Sequence[str], label_name: str) -> tuple[list[Row], int]:
        """The rows with a text in each text column, and the number of other rows."""
        texts = [self.column(header, name) for name in text_names]
        label = self.column(header, label_name)
        records = self.records[header:]
        kept = [
            Row(f"{self.path}:{line}", join_pair([fields[text] for text in texts]), fields[label])
            for line, fields in records
            if all(fields[text] for text in texts)
        ]
        for row in kept:
            if not row.label:
                raise WrongInput(f"{row.location}: the label is empty")
        return kept, self.blank + len(records) - len(kept)


def _split(path: Path, content: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Split into records, each with the number of its first line. Only a line feed ends a line.

    In files with tabs, quotes are text unless they enclose a whole field and all quotes inside are doubled.
    """
    lines = content.removesuffix("\n").split("\n")
    if separator == "\t":
        for number, line in enumerate(lines, 1):
            whole = [(field, QUOTED.fullmatch(field)) for field in line.split("\t")]
            yield number, [quoted[1].replace('""', '"') if quoted else field for field, quoted in whole]
        return
    # The csv module ends a line at a carriage return: it is replaced by NUL, which `read_text` rejects.
    reader = csv.reader((f"{line}\n".replace("\r", "\0") for line in lines), delimiter=separator, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, [field.replace("\0", "\r") for field in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            hint = "a quote inside a quoted field must be doubled"
            raise WrongInput(f"{path}:{number}: {error}; {hint}") from None


def _find_separator(path: Path, content: str) -> str:
    """The first separator with which all rows have the same number of fields, two or more.

    Otherwise the one that splits the first row into the most fields.
    """
    candidates = SEPARATORS.get(path.suffix.lower(), SEPARATORS[".csv"])
    first = dict.fromkeys(candidates, 0)
    for separator in candidates:
        widths = []
        with suppress(WrongInput):
            for _, fields in islice(_split(path, content, separator), INSPECTED):
                widths += [len(fields)] * any(fields)
        if widths and min(widths) == max(widths) > 1:
            return separator
        first[separator] = widths[0] if widths else 0
    return max(candidates, key=lambda separator: first[separator])


def short(text: str) -> str:
    """Quote a text for a message, shortened if it is long."""
    return repr(text if len(text) <= SHORT else text[: SHORT - 1] + "…")
