"""One answer per sequence: a class, yes or no, or a number."""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limelight.data.batching import Batch
from limelight.data.synthetic.sequences import Brackets, Count, Majority
from limelight.data.text.labelled_text import LabelledText
from limelight.models.classifier import ClassifierConfig
from limelight.tasks.sequence.shared import SequenceTask, SequenceTaskConfig
from limelight.tasks.task import Scores


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
        return Scores(loss, {"loss": loss.detach(), "error": error})

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

    kind: Literal["classify"] = "classify"
    data: Annotated[
        Brackets | Majority | Count | LabelledText, Field(discriminator="kind", description="the data set")
    ]
