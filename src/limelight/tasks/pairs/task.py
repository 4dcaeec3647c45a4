"""One answer for two texts: entailment, paraphrase, similarity."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import nn

from limelight.data.dataset import Dataset, SequenceData
from limelight.data.synthetic.phrasebook.agreement import LONGEST, Agreement
from limelight.data.text.pair_table import PairTable
from limelight.data.text.text_column import Column, find_columns_of_pairs
from limelight.data.text.text_pair import TYPED, PairVocabulary, TextPair
from limelight.models.classifier import ClassifierConfig
from limelight.tasks.sequence.classify import Classify
from limelight.tasks.sequence.shared import SequenceTask, SequenceTaskConfig
from limelight.tasks.task import Input, Task, unsuitable_reader
from limelight.view.record import Record


class Pairs(Classify):
    """The same as `Classify` for a sequence of two texts with a separator between them.

    An input is a line with both texts, separated by a tab or by |||.
    """

    def sample(self, dataset: SequenceData, split: str) -> str:
        """The first example, as it can be typed."""
        return _typed(super().sample(dataset, split))

    def _record(self, model: nn.Module, given: Input, number: int) -> Record:
        found = super()._record(model, given, number)
        return found.model_copy(update={"given": _typed(found.given)})

    def _column(self, path: Path) -> Column:
        return self.column if self._state.column else find_columns_of_pairs(path)


def _typed(line: str) -> str:
    return line.replace("\t", f" {TYPED} ")


class PairsConfig(SequenceTaskConfig):
    """One answer for two texts."""

    task = Pairs
    models = (ClassifierConfig,)
    path_data = "pair-table"

    kind: Literal["pairs"] = Field("pairs", description="the kind of task")
    data: Annotated[Agreement | PairTable, Field(discriminator="kind", description="the data set")]

    def load_from(self, seed: int, start: Task[Any]) -> tuple[SequenceTask, SequenceData]:
        """Both texts are read with the vocabulary of the task to start from."""
        reader = start.reader
        if isinstance(reader, PairVocabulary):
            longest = self.data.longest if isinstance(self.data, PairTable) else LONGEST
            reader = TextPair(vocabulary=reader, longest=longest)
        if not isinstance(reader, TextPair):
            raise unsuitable_reader(start, "a vocabulary of texts without n-grams")
        data = self.data.load(seed, reader)
        return self.task.of(data), data

    def load_other(self, task: Pairs, path: Path) -> Dataset[Any]:
        """Labelled pairs of other files."""
        if not isinstance(task.reader, TextPair):
            return super().load_other(task, path)
        table = self.data if isinstance(self.data, PairTable) else PairTable(longest=task.reader.longest)
        return table.load_other(path, task.reader, task.answers, task.column)
