"""Labelled texts from a user's CSV or TSV files."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field

from limelight.data.text.delimited import MOST_NAMED, DelimitedFile, short
from limelight.data.text.labelled_table import CHOOSE, LABEL_NAMES, LabelledTable, only
from limelight.data.text.text_column import TEXT_NAMES, Column
from limelight.errors import WrongInput


class LabelledText(LabelledTable):
    """A file whose rows contain a text and a label, or a folder with train, dev and test files."""

    kind: Literal["table"] = Field("table", description="labelled texts from CSV or TSV files")
    text: str = Field("", description="name of the text column; empty: detect it")

    @property
    def _chosen_texts(self) -> tuple[str, ...]:
        return (self.text,)

    def _with_columns(self, column: Column, label: str) -> Self:
        return self.model_copy(update={"text": column.name, "label": label})

    def _has_usual_names(self, names: Sequence[str]) -> bool:
        return bool({name.lower() for name in names} & {*TEXT_NAMES, *LABEL_NAMES})

    def _find_columns(self, table: DelimitedFile, header: bool) -> tuple[tuple[str, ...], str]:
        """The names of the text column and the label column."""
        names = table.names(header)
        text, label = (
            table.column(header, given)
            if given
            else only(i for i, name in enumerate(names) if name.lower() in common)
            for given, common in ((self.text, TEXT_NAMES), (self.label, LABEL_NAMES))
        )
        if len(names) == 2:
            if text is None and label is None:
                lengths = [sum(len(fields[i]) for _, fields in table.records[header:]) for i in (0, 1)]
                text = lengths.index(max(lengths)) if lengths[0] != lengths[1] else None
            text = 1 - label if text is None and label is not None else text
            label = 1 - text if label is None and text is not None else label
        if text is None or label is None or text == label:
            columns = ", ".join(map(short, names[:MOST_NAMED]))
            raise WrongInput(
                f"{table.location}: the text and label columns are not clear; there are: {columns}; {CHOOSE}"
            )
        return (names[text],), names[label]
