"""One answer per item, or one item of a set."""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limelight.data.batching import Batch
from limelight.data.synthetic.odd_one_out import OddOneOut
from limelight.data.synthetic.sequences import Reverse
from limelight.models.labeller import LabellerConfig
from limelight.nn import padding_mask
from limelight.tasks.sequence.shared import SequenceTask, SequenceTaskConfig
from limelight.tasks.task import Scores


class Label(SequenceTask):
    """One class per item (cross-entropy over the classes), or one item per set (over the items)."""

    def predictions(self, batch: Batch) -> int:
        """One per item, or one per set."""
        return len(batch) if self.answers.kind == "which" else batch.tokens

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """Cross-entropy and accuracy."""
        outputs = model(*self.arguments(batch))
        real_BT = None if batch.lengths is None else padding_mask(batch.lengths, outputs.shape[1]).squeeze(1)
        if self.answers.kind == "which":
            logits = outputs.squeeze(-1)
            logits = logits if real_BT is None else logits.masked_fill(~real_BT, -torch.inf)
            targets = batch.targets
        elif real_BT is None:
            logits, targets = outputs.flatten(0, 1), batch.targets.flatten()
        else:
            logits, targets = outputs[real_BT], batch.targets[real_BT]
        loss = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
        right = (logits.detach().max(-1).indices == targets).sum()  # equal to argmax, but faster
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def choices(self, outputs: Tensor, length: int) -> Tensor:
        """(T, L) -> (T, L), the probabilities of each item's symbols, or (T), those of the items"""
        if self.answers.kind == "which":
            return outputs[:length].squeeze(-1).softmax(0)
        return super().choices(outputs, length)


class LabelConfig(SequenceTaskConfig):
    """One answer per item of a sequence."""

    task = Label
    models = (LabellerConfig,)

    kind: Literal["label"] = Field("label", description="the kind of task")
    data: Annotated[Reverse | OddOneOut, Field(discriminator="kind", description="the data set")]
