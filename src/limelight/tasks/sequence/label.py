"""One answer per item, or which item it is."""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limelight.config import Config
from limelight.data.batching import Batch
from limelight.data.synthetic.odd_one_out import OddOneOut
from limelight.data.synthetic.sequences import Reverse
from limelight.nn import padding_mask
from limelight.tasks.sequence.shared import SequenceTask
from limelight.tasks.task import Scores


class LabelConfig(Config):
    kind: Literal["label"] = "label"
    data: Annotated[Reverse | OddOneOut, Field(discriminator="kind")]

    def load(self, seed: int) -> "Label":
        return Label.of(self.data.load(seed))

    def restore(self, state: str) -> "Label":
        return Label.restored(state)


class Label(SequenceTask):
    """A class for each item (cross-entropy over classes), or one item of each set (over the items)."""

    def predictions(self, batch: Batch) -> int:
        return len(batch) if self.answers.kind == "which" else batch.tokens

    def score(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
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
        right = (logits.detach().max(-1).indices == targets).sum()  # what argmax says, sooner
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def choices(self, outputs: Tensor, length: int) -> Tensor:
        """(T, L) -> (T, L), the symbols of each item, or (T), the items, the first being 0"""
        if self.answers.kind == "which":
            return outputs[:length].squeeze(-1).softmax(0)
        return outputs[:length].softmax(-1)
