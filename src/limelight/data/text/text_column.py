"""The text columns of a user's CSV or TSV file, in training and in prediction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from limelight.data.text.delimited import SEPARATORS, DelimitedFile
from limelight.data.text.text_files import read_text
from limelight.data.text.text_pair import join_pair
from limelight.errors import WrongInput

TEXT_NAMES = ("text", "sentence", "review", "comment", "message", "tweet", "phrase", "content")
# Names of two text columns, without punctuation: "sentence_A", "#1 String".
PAIR_NAMES = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentencea", "sentenceb")),
    *(("question1", "question2"), ("text1", "text2"), ("texta", "textb"), ("1string", "2string")),
    *(("question", "sentence"), ("first", "second"), ("a", "b")),
)
TEXTS_ONLY = "pass only the texts, one per line, in a .txt file or on stdin"
PAIRS_ONLY = "pass only the two texts of each row, with a tab between them"


@dataclass(frozen=True)
class Column:
    """The text column of a file, or both text columns of a file of pairs.

    Without a header their names are "column 1", "column 2" and so on.
    """

    name: str
    header: bool
    label: str = ""  # name of the label column of training
    second: str = ""  # name of the column of the second texts, for pairs

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the text columns."""
        return (self.name, self.second) if self.second else (self.name,)

    def read(self, path: Path) -> list[str]:
        """The texts of another file, one per row, and pairs with a tab between them.

        A file that has no more columns than texts contains only texts.
        """
        _, rows, indices = self._open(path)
        return [join_pair([row[i] for i in indices]) for row in rows]

    def table(self, path: Path) -> tuple[list[str], list[list[str]]]:
        """The column names and the rows of another file with this column, or with texts only."""
        names, rows, _ = self._open(path)
        return names, rows

    def _open(self, path: Path) -> tuple[list[str], list[list[str]], list[int]]:
        """The column names, the rows, and the indices of the text columns."""
        table = DelimitedFile.read(path, min_columns=len(self.texts), keep_blank=True)
        column = self.in_file(table)
        names = table.names(column.header)
        if len(names) == len(column.texts) and {*names} != {*column.texts}:  # texts without a header
            titles = ["first", "second"] if self.second else ["text"]
            return titles, [fields for _, fields in table.records], list(range(len(names)))
        try:
            indices = [table.column(column.header, name) for name in column.texts]
        except WrongInput as error:
            raise WrongInput(f"{error}; or {PAIRS_ONLY if self.second else TEXTS_ONLY}") from None
        return names, [fields for _, fields in table.records[column.header :]], indices

    def in_file(self, table: DelimitedFile) -> "Column":
        """This column; or the column that the header of the file names, if training had no header."""
        if self.header:
            return self
        return (named_pair(table) if self.second else named_column(table)) or self


def is_table(path: Path) -> bool:
    """Whether a file has columns, by its extension; a .txt file needs a tab in its first line."""
    if path.suffix.lower() == ".txt":
        return "\t" in read_text(path).split("\n", 1)[0]
    return path.suffix.lower() in SEPARATORS


def named_column(table: DelimitedFile) -> Column | None:
    """The column with a usual name of texts; None if there is none, or more than one."""
    found = [name for name in table.names(header=True) if name.lower() in TEXT_NAMES]
    return Column(found[0], header=True) if len(found) == 1 else None


def named_pair(table: DelimitedFile) -> Column | None:
    """The columns with usual names of two texts; None if there are none."""
    names = table.names(header=True)
    found = find_pair(names)
    return Column(names[found[0]], header=True, second=names[found[1]]) if found else None


def find_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """The indices of the columns with usual names of two texts; None if there are none, or more than two."""
    plain = [plain_name(name) for name in names]
    for first, second in PAIR_NAMES:
        if plain.count(first) == plain.count(second) == 1:
            return plain.index(first), plain.index(second)
    return None


def plain_name(name: str) -> str:
    """The name of a column in lower case, without punctuation and spaces."""
    return re.sub(r"[\W_]", "", name.lower())


def find_column(path: Path) -> Column:
    """Find the text column of a file by its name."""
    table = DelimitedFile.read(path, min_columns=1)
    found = named_column(table)
    if found is None:
        raise WrongInput(f"{table.location}: the text column is not clear; name it 'text', or {TEXTS_ONLY}")
    return found


def find_columns_of_pairs(path: Path) -> Column:
    """Find both text columns of a file by their names; in a file with two columns, they are these."""
    table = DelimitedFile.read(path)
    found = named_pair(table)
    if found is None and len(table.names(header=False)) == 2:
        return Column("column 1", header=False, second="column 2")
    if found is None:
        names = "name them 'first' and 'second'"
        raise WrongInput(f"{table.location}: the text columns are not clear; {names}, or {PAIRS_ONLY}")
    return found
