"""Promises about the weights: how scores are scaled, which axis the softmax has, what rows add up to."""

import math
import re

import torch
from torch import Tensor

from limelight.check.harness.inputs import ATTENTION, BARE, Case
from limelight.check.harness.signature import BEGIN
from limelight.check.harness.subject import Subject
from limelight.check.instruments.op_trace import Attention, attentions, same_numbers
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers

UNSEEN = "no softmax was seen while it ran"


def seen(
    subject: Subject, case: Case | None = None, hide: dict[str, Tensor] | None = None
) -> list[Attention]:
    """Every attention that it computes."""
    case = case or subject.case()
    _, steps = subject.trace(subject.model(), case, hide)
    found = attentions(steps)
    if subject.kind in (*BARE, "multi-head-attention"):
        return found
    return [one for one in found if one.weights.shape[-1] in (case.x.shape[1], case.keys)] or found


def _is_one(sums: Tensor) -> bool:
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-4))


def _softmax_axis(subject: Subject) -> Outcome:
    if subject.kind == "masked-softmax":
        case = subject.case()
        out = subject.call(subject.model(), case).out
        if bool(torch.allclose(out, case.x.softmax(-1), atol=1e-5)):
            return KEPT
        return _wrong_axis(out[0], case.x[0]) if not _is_one(out.sum(-1)) else _no_softmax(out, case.x)
    found = seen(subject)
    if not found:
        return _queries_apart(subject)
    for one in found:
        if not _is_one(one.weights.sum(-1)) and _is_one_elsewhere(subject, one.weights):
            return _wrong_axis(one.weights[0])
    return KEPT


def _is_one_elsewhere(subject: Subject, weights: Tensor) -> bool:
    """Along queries, the batch or heads."""
    heads = subject.sizes.heads
    by_head = weights.unflatten(0, (-1, heads)).sum(1) if len(weights) % heads == 0 else weights
    return any(_is_one(sums) for sums in (weights.sum(-2), weights.sum(0), by_head))


def _wrong_axis(weights: Tensor, scores: Tensor | None = None) -> Outcome:
    asked = "" if scores is None else f"scores {numbers(scores[:2])} -> "
    return broken(
        f"{asked}weights of the first two queries over {weights.shape[-1]} keys: {numbers(weights[:2])}",
        "each row adds up to 1",
        f"rows add up to {numbers(weights.sum(-1))}, columns to {numbers(weights.sum(-2))}",
    )


def _no_softmax(out: Tensor, scores: Tensor) -> Outcome:
    return broken(
        f"scores {numbers(scores[0, 0])}, nothing hidden",
        f"softmax: {numbers(scores[0, 0].softmax(-1))}",
        numbers(out[0, 0]),
    )


def _queries_apart(subject: Subject) -> Outcome:
    """Without a softmax to look at: what one query gets does not hang on the others."""
    if subject.kind not in ATTENTION or not subject.has_source or subject.form.query != "BTD":
        return inapplicable(UNSEEN)
    model, case = subject.model(), subject.case()
    other = case.x.clone()
    other[:, 0] += 3.0
    before = subject.call(model, case).out[:, 1:]
    after = subject.call(model, Case(other, case.source, case.values)).out[:, 1:]
    if bool(torch.allclose(before, after, atol=1e-5)):
        return KEPT
    return broken(
        "two queries; the first is changed",
        f"the second's output stays {numbers(before[0, 0, :3])} …",
        f"it becomes {numbers(after[0, 0, :3])} …",
    )


def _rows(subject: Subject) -> Outcome:
    if subject.kind == "masked-softmax":
        out = subject.call(subject.model(), subject.case()).out
        return KEPT if _is_one(out.sum(-1)) or _is_one(out.sum(-2)) else _bad_sums(out[0])
    found = seen(subject)
    if not found:
        return _constant_values(subject)
    for one in found:
        if not _is_one(one.weights.sum(-1)) and not _is_one_elsewhere(subject, one.weights):
            return _bad_sums(one.weights[0])
    return KEPT


def _constant_values(subject: Subject) -> Outcome:
    if subject.kind not in (*BARE, "additive-attention") or not subject.has_source:
        return inapplicable(UNSEEN)
    case = subject.case()
    values = case.source if case.values is None else case.values
    assert values is not None
    ones = Case(
        case.x, torch.ones_like(values) if case.values is None else case.source, torch.ones_like(values)
    )
    result = subject.call(subject.model(), ones)
    out = result.out if result.out.shape[-1] == values.shape[-1] else result.out.sum(-1)
    if bool(torch.allclose(out, torch.ones_like(out), atol=1e-4)):
        return KEPT
    if result.weights is not None and _is_one(result.weights.sum(-1)):
        return KEPT
    return broken("every value is 1", "weights that add up to 1 make 1 of it", numbers(out[0, 0]))


def _bad_sums(weights: Tensor) -> Outcome:
    return broken(
        f"weights of the first query: {numbers(weights[0])}",
        "they add up to 1",
        f"{float(weights[0].sum()):.3f}",
    )


def _scale(subject: Subject) -> Outcome:
    if subject.kind == "additive-attention":
        return inapplicable("additive scores are not scaled")
    if BEGIN in subject.roles.values():
        return inapplicable("in a recurrent decoder, as Luong has them, scores are not scaled")
    found = [one for one in seen(subject) if one.scale is not None and one.width]
    if not found:
        return inapplicable("the product of queries and keys was not seen")
    for one in found:
        assert one.scale is not None
        assert one.width is not None
        if abs(one.scale * math.sqrt(one.width) - 1) > 1e-3:
            return broken(
                f"queries and keys of {one.width} numbers in each head",
                f"q·k × {1 / math.sqrt(one.width):.4f} (1/√{one.width})",
                f"q·k × {one.scale:.4f}{_named(one.scale, one.width, subject)}",
            )
    return KEPT


def _named(scale: float, width: int, subject: Subject) -> str:
    sizes = subject.sizes
    names = {
        1.0: "not scaled",
        1 / width: f"1/{width}: divided by d, not by √d",
        math.sqrt(width): "multiplied by √d",
        1 / math.sqrt(sizes.width): f"1/√{sizes.width}: the model's width, not one head's",
        1 / math.sqrt(sizes.queries): f"1/√{sizes.queries}: the number of queries",
        1 / math.sqrt(sizes.keys): f"1/√{sizes.keys}: the number of keys",
        1 / math.sqrt(sizes.batch): f"1/√{sizes.batch}: the size of the batch",
        1 / math.sqrt(sizes.heads): f"1/√{sizes.heads}: the number of heads",
        1 / width**2: "divided by d²",
    }
    near = [name for value, name in names.items() if abs(scale - value) < 1e-3 * value]
    return f" ({near[0]})" if near else ""


@torch.no_grad()
def _query_matters(subject: Subject) -> Outcome:
    """Without tanh, the query adds the same to every score, and a softmax does not see it."""
    model, case = subject.model(), subject.case()
    before = subject.call(model, case).out
    after = subject.call(model, Case(case.x * -2 + 1, case.source, case.values)).out
    if not torch.allclose(before, after, atol=1e-5):
        return KEPT
    return broken(
        "one source, two different queries", "they look elsewhere", f"both get {numbers(before[0, 0, :3])} …"
    )


def _heads(subject: Subject) -> Outcome:
    found = seen(subject)
    if not found:
        return inapplicable(UNSEEN)
    wanted = subject.sizes.batch * subject.sizes.heads
    counts = [len(one.weights) for one in found]
    layers = subject.sizes.depth if "depth" in subject.told_by.values() else 1
    if min(counts) >= wanted or sum(counts) >= wanted * layers:  # heads may be modules of their own
        return KEPT
    return broken(
        f"{subject.sizes.heads} heads, {subject.sizes.batch} sequences",
        f"{wanted} maps of weights, one for each head of each sequence",
        f"{min(counts)}",
    )


def _output_projection(subject: Subject) -> Outcome:
    case = subject.case()
    result, steps = subject.trace(subject.model(), case)
    found = attentions(steps)
    if not found or found[-1].mixed is None:
        return inapplicable(UNSEEN)
    if not same_numbers(result.out, found[-1].mixed):
        return KEPT
    others = [name for name in subject.namespace if re.search(r"(self|att\w*)output$", name.lower())]
    if others or subject.name.lower().startswith("bert"):
        return inapplicable("as in BERT, the output layer of an attention stands in another class")
    return broken(
        "the heads' results side by side, before anything is done with them",
        "one more matrix W_o mixes them: Concat(head_1, …) W_o",
        "they come out as they are",
    )


PROMISES = (
    Promise(
        "scale",
        "scores are q·k/√d, with d the width of one head",
        _scale,
        "d is the last axis of the queries as they are multiplied: after the split into heads, not "
        "before it; "
        "its square root, not d itself",
    ),
    Promise(
        "softmax-axis",
        "the softmax runs over the keys",
        _softmax_axis,
        "scores are (…, queries, keys): softmax(dim=-1). dim=1 or dim=-2 lets queries compete for a key",
    ),
    Promise(
        "rows-sum-to-one",
        "the weights of each query add up to 1",
        _rows,
        "nothing but a softmax stands between scores and weights; a mask belongs before it",
    ),
    Promise(
        "query-matters",
        "what is looked at depends on the query",
        _query_matters,
        "w·tanh(W_q q + W_k k): without the tanh, the query's part is the same for every key and falls "
        "out of the softmax",
    ),
    Promise(
        "heads",
        "there are as many maps as heads",
        _heads,
        "the number of heads reaches the constructor and must reach the split, too",
    ),
    Promise(
        "output-projection",
        "an output projection mixes the heads",
        _output_projection,
        "W_o is made in the constructor and must be applied in forward, after the heads are merged",
    ),
)
