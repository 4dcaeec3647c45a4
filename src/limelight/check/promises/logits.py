"""The promise about the outputs of a whole model: they are logits."""

import torch

from limelight.check.harness.subject import Subject
from limelight.check.promises.promise import KEPT, Promise, inapplicable, numbers, warned
from limelight.check.report import Finding


@torch.no_grad()
def _logits(subject: Subject) -> Finding:
    """Probabilities are positive and sum to 1; cross_entropy expects the numbers before the softmax."""
    result, steps = subject.trace(subject.model(), subject.case())
    out = result.out.float()
    if out.shape[-1] < 2:
        return inapplicable("it returns a single number")
    sums = out.sum(-1)
    if bool((out < 0).any()) or not torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
        return KEPT
    softmaxes = [step for step in steps if step.name == "_softmax"]
    return warned(
        f"the first output: {numbers(out.reshape(-1, out.shape[-1])[0])}",
        "logits, as nn.CrossEntropyLoss applies the softmax itself",
        "probabilities, which are positive and sum to 1",
        place=softmaxes[-1].place if softmaxes else None,
    )


PROMISES = (
    Promise(
        "logits",
        "a model returns logits, not probabilities",
        _logits,
        "with nn.CrossEntropyLoss, a softmax at the end of the model is applied twice, and learning is "
        "slow: return the output of the last linear layer",
    ),
)
