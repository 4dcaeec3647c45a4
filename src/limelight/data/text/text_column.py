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
        names, rows = self.table(path)
        known = [i for i, name in enumerate(names) if name == self.name or name.lower() in TEXT_NAMES]
        index = names.index(self.name) if self.name in names else known[0] if known else 0
        return [row[index] for row in rows]

    def table(self, path: Path) -> tuple[list[str], list[list[str]]]:
        """The column names and the rows of another file with this column, or with texts only."""
        table = DelimitedFile.read(path, min_columns=1, keep_blank=True)
        if not self.header and names_a_text(table):
            return find_column(path).table(path)
        names = table.names(self.header)
        if len(names) == 1 and names != [self.name]:  # texts without a header
            return ["text"], [fields for _, fields in table.records]
        try:
            table.column(self.header, self.name)
        except WrongInput as error:
            raise WrongInput(f"{error}; or {TEXTS_ONLY}") from None
        return names, [fields for _, fields in table.records[self.header :]]


def is_table(path: Path) -> bool:
    """Whether a file has columns, by its extension; a .txt file needs a tab in its first line."""
    if path.suffix.lower() == ".txt":
        return "\t" in read_text(path).split("\n", 1)[0]
    return path.suffix.lower() in SEPARATORS


def names_a_text(table: DelimitedFile) -> bool:
    """Whether the first row is a header with one usual name of a text column."""
    return sum(name.lower() in TEXT_NAMES for name in table.names(header=True)) == 1


def find_column(path: Path) -> Column:
    """Find the text column of a file by its name."""
    table = DelimitedFile.read(path, min_columns=1)
    found = [name for name in table.names(header=True) if name.lower() in TEXT_NAMES]
    if len(found) != 1:
        raise WrongInput(f"{table.location}: the text column is not clear; name it 'text', or {TEXTS_ONLY}")
    return Column(found[0], header=True)
