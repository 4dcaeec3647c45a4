"""The text column of a user's CSV or TSV file, in training and in prediction."""

from dataclasses import dataclass
from pathlib import Path

from limelight.data.text.delimited import SEPARATORS, DelimitedFile
from limelight.data.text.text_files import read_text
from limelight.errors import WrongInput

TEXT_NAMES = ("text", "sentence", "review", "comment", "message", "tweet", "phrase", "content")
TEXTS_ONLY = "pass only the texts, one per line, in a .txt file or on stdin"


@dataclass(frozen=True)
class Column:
    """The text column of a file; without a header its name is "column 1", "column 2" and so on."""

    name: str
    header: bool
    label: str = ""  # name of the label column of training

    def read(self, path: Path) -> list[str]:
        """The texts of another file, one per row. A file with a single column contains only texts."""
        _, rows, index = self._open(path)
        return [row[index] for row in rows]

    def table(self, path: Path) -> tuple[list[str], list[list[str]]]:
        """The column names and the rows of another file with this column, or with texts only."""
        names, rows, _ = self._open(path)
        return names, rows

    def _open(self, path: Path) -> tuple[list[str], list[list[str]], int]:
        """The column names, the rows, and the index of the text column."""
        table = DelimitedFile.read(path, min_columns=1, keep_blank=True)
        column = self.in_file(table)
        names = table.names(column.header)
        if len(names) == 1 and names != [column.name]:  # texts without a header
            return ["text"], [fields for _, fields in table.records], 0
        try:
            index = table.column(column.header, column.name)
        except WrongInput as error:
            raise WrongInput(f"{error}; or {TEXTS_ONLY}") from None
        return names, [fields for _, fields in table.records[column.header :]], index

    def in_file(self, table: DelimitedFile) -> "Column":
        """This column; or the column that the header of the file names, if training had no header."""
        return self if self.header else named_column(table) or self


def is_table(path: Path) -> bool:
    """Whether a file has columns, by its extension; a .txt file needs a tab in its first line."""
    if path.suffix.lower() == ".txt":
        return "\t" in read_text(path).split("\n", 1)[0]
    return path.suffix.lower() in SEPARATORS


def named_column(table: DelimitedFile) -> Column | None:
    """The column with a usual name of texts; None if there is none, or more than one."""
    found = [name for name in table.names(header=True) if name.lower() in TEXT_NAMES]
    return Column(found[0], header=True) if len(found) == 1 else None


def find_column(path: Path) -> Column:
    """Find the text column of a file by its name."""
    table = DelimitedFile.read(path, min_columns=1)
    found = named_column(table)
    if found is None:
        raise WrongInput(f"{table.location}: the text column is not clear; name it 'text', or {TEXTS_ONLY}")
    return found
