"""One answer per sequence: a class, yes or no, or a number."""

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limelight.data.batching import Batch, even_batches
from limelight.data.dataset import Dataset, SequenceData
from limelight.data.synthetic.sequences import Brackets, Count, Majority
from limelight.data.text.affixes import Affixes
from limelight.data.text.labelled_table import TextReader
from limelight.data.text.labelled_text import LabelledText
from limelight.data.text.symbols import Symbols, Vectors
from limelight.models.classifier import ClassifierConfig
from limelight.tasks.metrics import Baseline, Judgement, judge_classes, judge_numbers
from limelight.tasks.sequence.baseline import linear_baseline
from limelight.tasks.sequence.shared import (
    PREDICT_BATCH,
    SequenceTask,
    SequenceTaskConfig,
)
from limelight.tasks.task import Scores, Task, unsuitable_reader


class Classify(SequenceTask):
    """Cross-entropy for a class, binary cross-entropy for yes or no, squared error for a number."""

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """The loss, with accuracy or, for a number, the mean absolute error."""
        outputs, targets = model(*self.arguments(batch)), batch.targets
        if self.answers.kind == "class":
            loss = F.cross_entropy(outputs, targets, reduction="sum", label_smoothing=smoothing)
            return Scores(loss, {"loss": loss.detach(), "accuracy": (outputs.argmax(-1) == targets).sum()})
        outputs = outputs.squeeze(-1)
        if self.answers.kind == "yes-no":
            softened = targets * (1 - smoothing) + smoothing / 2
            loss = F.binary_cross_entropy_with_logits(outputs, softened, reduction="sum")
            return Scores(loss, {"loss": loss.detach(), "accuracy": ((outputs > 0) == (targets > 0.5)).sum()})
        scaled = (targets - self.answers.mean) / self.answers.deviation
        loss = F.mse_loss(outputs, scaled, reduction="sum")
        error = (outputs.detach() - scaled).abs().sum() * self.answers.deviation
        return Scores(loss, {"loss": loss.detach(), "mae": error})

    @torch.no_grad()
    def evaluate_answers(
        self, model: nn.Module, dataset: SequenceData, split: str, options: Any = None
    ) -> Judgement:
        """For classes precision, recall and F1 of each; for numbers mae, rmse and r2."""
        device = next(model.eval().parameters()).device
        truths, found = list[Tensor](), list[Tensor]()
        for index in even_batches(dataset.lengths(split), PREDICT_BATCH):
            batch = dataset.batch(split, index)
            outputs = model(*self.arguments(batch.to(device))).float().cpu()
            truths.append(batch.targets)
            if self.answers.kind == "class":
                found.append(outputs.argmax(-1))
            elif self.answers.kind == "yes-no":
                found.append((outputs.squeeze(-1) > 0).long())
            else:
                found.append(outputs.squeeze(-1) * self.answers.deviation + self.answers.mean)
        truth, predicted = torch.cat(truths), torch.cat(found)
        if self.answers.kind == "number":
            return judge_numbers(truth, predicted)
        return judge_classes(truth, predicted, self.answers.names)

    def baseline(self, dataset: SequenceData, split: str) -> Baseline | None:
        """For texts: TF-IDF with a linear model, if scikit-learn is installed."""
        if not {"train", split} <= dataset.texts.keys():
            return None
        known, new = (
            (dataset.texts[name], cast(Tensor, dataset.examples(name).targets)) for name in ("train", split)
        )
        return linear_baseline(self.answers.kind, *known, *new)

    def choices(self, outputs: Tensor, length: int) -> Tensor:
        """(L) -> (L), the probability of each class; empty for a number"""
        if self.answers.kind == "yes-no":
            yes_1 = outputs.sigmoid()
            return torch.cat((1 - yes_1, yes_1))
        return super().choices(outputs, length)


class ClassifyConfig(SequenceTaskConfig):
    """One answer per sequence."""

    task = Classify
    models = (ClassifierConfig,)

    kind: Literal["classify"] = Field("classify", description="the kind of task")
    data: Annotated[
        Brackets | Majority | Count | LabelledText, Field(discriminator="kind", description="the data set")
    ]

    def load_from(self, seed: int, start: Task[Any]) -> tuple[SequenceTask, SequenceData]:
        """Texts are read with the vocabulary of the task to start from."""
        if not isinstance(self.data, LabelledText):
            return super().load_from(seed, start)
        if not isinstance(start.reader, TextReader):
            raise unsuitable_reader(start, "a vocabulary of texts")
        data = self.data.load(seed, start.reader)
        return self.task.of(data), data

    def load_other(self, task: Classify, path: Path) -> Dataset[Any]:
        """Labelled texts of other files."""
        if not isinstance(self.data, LabelledText) or isinstance(task.reader, Symbols | Vectors | Affixes):
            return super().load_other(task, path)
        return self.data.load_other(path, task.reader, task.answers, task.column)
