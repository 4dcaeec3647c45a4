"""The promise about attention weights that are returned: they are the weights that were used."""

import torch
from torch import Tensor

from limelight.check.harness.subject import Subject
from limelight.check.instruments.op_trace import Attention, attentions, same_values
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers
from limelight.check.report import Finding


@torch.no_grad()
def _are_used(subject: Subject) -> Finding:
    rates = [name for name, role in subject.constructor_roles.items() if role == "dropout"]
    for training in (False, True):
        model = subject.model(training=training, given=dict.fromkeys(rates, 0.5))
        result, steps = subject.trace(model, subject.case(), dropout=True)
        found = attentions(steps)
        if result.weights is None or len(found) != 1:
            return inapplicable("it returns no attention weights, or those of several layers")
        if not _are_weights_of(result.weights, found[0]):
            return _wrong_weights(result.weights, found[0], training=training)
    return KEPT


def _are_weights_of(returned: Tensor, attention: Attention) -> bool:
    """Whether they are the weights before or after dropout, of all heads or on average."""
    is_fused = attention.softmax.name.startswith("_scaled")
    before = attention.weights if is_fused else attention.softmax.output
    return any(_are_equal(returned, weights) for weights in (before, attention.weights))


def _are_equal(returned: Tensor, weights: Tensor) -> bool:
    if same_values(returned, weights):
        return True
    heads, rest = divmod(weights.numel(), max(1, returned.numel()))
    if rest:  # another tensor whose last axis happens to have this size
        return True
    rows = weights.reshape(-1, *weights.shape[-2:])
    if heads == 1 or len(rows) % heads:
        return heads != 1
    means = rows.unflatten(0, (-1, heads)).mean(1), rows.unflatten(0, (heads, -1)).mean(0)
    return any(same_values(returned, mean) for mean in means)


def _wrong_weights(returned: Tensor, attention: Attention, *, training: bool) -> Finding:
    what = "they are not the weights that are multiplied with the values"
    if attention.scores is not None and same_values(returned, attention.scores):
        what = "they are the scores before the softmax"
    elif training:
        what = "dropout is applied to the returned weights, but not to those that are used"
    row = returned.reshape(-1, returned.shape[-1])[0]
    return broken(
        f"in {'training' if training else 'evaluation'}, the first row that is returned: {numbers(row)}",
        f"the weights of the softmax: {numbers(attention.weights[0, 0])}",
        what,
        place=attention.softmax.place,
    )


PROMISES = (
    Promise(
        "returned-weights",
        "the attention weights that are returned are those that are used",
        _are_used,
        "return the output of the softmax that is multiplied with the values",
    ),
)
