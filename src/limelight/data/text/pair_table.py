"""Pairs of texts with one label each, from a user's CSV or TSV files."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field
from torch import Tensor

from limelight.data.text.delimited import MOST_NAMED, DelimitedFile, short
from limelight.data.text.labelled_table import LABEL_NAMES, LabelledTable, TextReader, only
from limelight.data.text.text_column import Column, find_pair, plain_name
from limelight.data.text.text_pair import TextPair, split_pair
from limelight.data.text.vocabulary import build_vocabulary
from limelight.errors import WrongInput

PAIR_LABEL_NAMES = (*LABEL_NAMES, "goldlabel", "isduplicate", "entailmentlabel", "quality", "similarity")
CHOOSE = "choose with --set task.data.first=NAME --set task.data.second=NAME --set task.data.label=NAME"


class PairTable(LabelledTable):
    """A file whose rows contain two texts and a label, or a folder with train, dev and test files.

    The columns are found by common names: premise and hypothesis, sentence1 and sentence2, question1 and
    question2, text1 and text2, a and b. Of three columns without such names, the one with the shortest
    entries has the labels. Everything else is as for labelled texts.
    """

    kind: Literal["pair-table"] = Field(
        "pair-table", description="labelled pairs of texts from CSV or TSV files"
    )
    first: str = Field("", description="name of the column of the first texts; empty: detect it")
    second: str = Field("", description="name of the column of the second texts; empty: detect it")
    vocabulary: Literal["words", "characters", "subwords"] = Field("words", description="kind of tokens")

    @property
    def _chosen_texts(self) -> tuple[str, ...]:
        return self.first, self.second

    @property
    def _most_items(self) -> int:
        return 2 * self.longest + 1  # the reader truncates each text

    def _with_columns(self, column: Column, label: str) -> Self:
        chosen = {"first": column.name, "second": column.second, "label": label}
        return self.model_copy(update=chosen)

    def _has_usual_names(self, names: Sequence[str]) -> bool:
        return find_pair(names) is not None or any(plain_name(one) in PAIR_LABEL_NAMES for one in names)

    def _find_columns(self, table: DelimitedFile, header: bool) -> tuple[tuple[str, ...], str]:
        names = table.names(header)
        first, second = (table.column(header, name) if name else None for name in self._chosen_texts)
        usual = find_pair(names) if first is None and second is None else None
        first, second = usual or (first, second)
        texts = {first, second}
        label: int | None
        if self.label:
            label = table.column(header, self.label)
        else:
            common = [i for i, name in enumerate(names) if plain_name(name) in PAIR_LABEL_NAMES]
            label = only(i for i in common if i not in texts)
        remaining = [i for i in range(len(names)) if i not in {first, second, label}]
        if label is None and len(names) == 3:
            sizes = {i: sum(len(fields[i]) for _, fields in table.records[header:]) for i in remaining}
            label = min(remaining, key=lambda i: sizes[i])
            remaining.remove(label)
        if len(remaining) == [first, second].count(None):
            first = remaining.pop(0) if first is None else first
            second = remaining.pop(0) if second is None else second
        if first is None or second is None or label is None or len({first, second, label}) < 3:
            columns = ", ".join(map(short, names[:MOST_NAMED]))
            raise WrongInput(
                f"{table.location}: the columns of the two texts and of the label are not clear; "
                f"there are: {columns}; {CHOOSE}"
            )
        return (names[first], names[second]), names[label]

    def _build_vocabulary(self, texts: Sequence[str]) -> TextReader:
        both = [text for line in texts for text in split_pair(line)]
        try:
            vocabulary = build_vocabulary(self.vocabulary, both, self.vocabulary_size, self.rarest)
        except WrongInput as error:
            raise WrongInput(f"{self.path}: {error}") from None
        return TextPair(vocabulary=vocabulary, longest=self.longest)

    def _is_truncated(self, text: str, row: Tensor, reader: TextReader) -> bool:
        return len(row) > self.longest and isinstance(reader, TextPair) and reader.is_truncated(text)
