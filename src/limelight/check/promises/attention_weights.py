"""Promises about attention weights: the axis of the softmax, sums, heads."""

import re
from contextlib import suppress

import torch
from torch import Tensor

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import influence
from limelight.check.instruments.op_trace import PRODUCTS, attentions, same_values
from limelight.check.instruments.parts import HEADS_ARE_MIXED, attentions_of, mixes_heads
from limelight.check.places import Place
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers
from limelight.check.report import Finding

NO_SOFTMAX = "no softmax was found in its computation"


def _softmax_place(subject: Subject) -> Place | None:
    found = attentions_of(subject)
    return found[0].softmax.place if found else None


def _is_one(sums: Tensor) -> bool:
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-4))


def _softmax_axis(subject: Subject) -> Finding:
    if subject.kind.reads_scores:
        case = subject.case()
        out = subject.call(subject.model(), case).out
        if bool(torch.allclose(out, case.x.softmax(-1), atol=1e-5)) or _is_for_one_row(subject, case):
            return KEPT
        place = _softmax_place(subject)
        if _is_one(out.sum(-1)):
            return _no_softmax(out, case.x, place)
        return _wrong_axis(out[0], place, case.x[0])
    found = attentions_of(subject)
    if not found:
        return _no_attention(subject) or _queries_are_independent(subject)
    for one in found:
        if not _is_one(one.weights.sum(-1)) and _is_one_elsewhere(subject, one.weights):
            return _wrong_axis(one.weights[0], one.softmax.place)
    return KEPT


def _is_for_one_row(subject: Subject, case: Case) -> bool:
    """Whether a function without a mask is the softmax of a single row of scores."""
    if subject.masks:
        return False
    with suppress(Exception):  # it takes scores with more axes only
        row = case.x[0, 0]
        return bool(torch.allclose(subject.target(row), row.softmax(-1), atol=1e-5))
    return False


def _is_one_elsewhere(subject: Subject, weights: Tensor) -> bool:
    """Whether the weights sum to 1 along the queries, the batch or the heads."""
    heads = subject.sizes.heads
    by_head = weights.unflatten(0, (-1, heads)).sum(1) if len(weights) % heads == 0 else weights
    return any(_is_one(sums) for sums in (weights.sum(-2), weights.sum(0), by_head))


def _wrong_axis(weights: Tensor, place: Place | None, scores: Tensor | None = None) -> Finding:
    given = "" if scores is None else f"scores {numbers(scores[:2])} -> "
    return broken(
        f"{given}weights of the first two queries over {weights.shape[-1]} keys: {numbers(weights[:2])}",
        "each row sums to 1",
        f"the rows sum to {numbers(weights.sum(-1))}, the columns to {numbers(weights.sum(-2))}",
        place=place,
    )


def _no_softmax(out: Tensor, scores: Tensor, place: Place | None) -> Finding:
    return broken(
        f"scores {numbers(scores[0, 0])}, no mask",
        f"softmax: {numbers(scores[0, 0].softmax(-1))}",
        numbers(out[0, 0]),
        place=place,
    )


def _no_attention(subject: Subject) -> Finding | None:
    """If no softmax was found: an attention still depends on all keys."""
    case = subject.case()
    found = influence(subject, subject.model(), case) if subject.kind.is_attention else None
    if found is None or found.shape[1:] == (1, 1):
        return None
    others = found if case.source is not None else found & ~torch.eye(found.shape[1], dtype=torch.bool)
    if others.any():
        return None
    return broken(
        f"{case.keys} keys; each of them is changed",
        "the output changes, as it is a weighted mean over all keys",
        "it does not change, and no softmax was found: there is no attention in its computation",
        "there is no attention in it; if it is not meant as one, give its kind with --as",
    )


def _queries_are_independent(subject: Subject) -> Finding:
    """If no softmax was found: the output of one query does not depend on the others."""
    if not subject.kind.is_attention or not subject.has_source or subject.form.query != "BTD":
        return inapplicable(NO_SOFTMAX)
    model, case = subject.model(), subject.case()
    other = case.x.clone()
    other[:, 0] += 3.0
    before = subject.call(model, case).out[:, 1:]
    after = subject.call(model, Case(other, case.source, case.values)).out[:, 1:]
    if bool(torch.allclose(before, after, atol=1e-5)):
        return KEPT
    return broken(
        "two queries; the first one is changed",
        f"the output of the second one stays {numbers(before[0, 0, :3])} …",
        f"it changes to {numbers(after[0, 0, :3])} …",
    )


def _rows_sum_to_one(subject: Subject) -> Finding:
    if subject.kind.reads_scores:
        case = subject.case()
        out = subject.call(subject.model(), case).out
        if _is_one(out.sum(-1)) or _is_for_one_row(subject, case):
            return KEPT
        return _wrong_sum(out[0], _softmax_place(subject))
    if mixes_heads(subject):
        return inapplicable(HEADS_ARE_MIXED)
    found = attentions_of(subject)
    if not found:
        return _constant_values(subject)
    for one in found:
        if not _is_one(one.weights.sum(-1)):
            return _wrong_sum(one.weights[0], one.softmax.place)
    return KEPT


def _constant_values(subject: Subject) -> Finding:
    """If no softmax was found: the weighted mean of ones is 1."""
    if not (subject.kind.is_bare or subject.kind.is_additive) or not subject.has_source:
        return inapplicable(NO_SOFTMAX)
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
    return broken("all values are 1", "an output of 1, as the weights sum to 1", numbers(out[0, 0]))


def _wrong_sum(weights: Tensor, place: Place | None) -> Finding:
    row = int((weights.sum(-1) - 1).abs().nan_to_num(torch.inf).argmax())
    return broken(
        f"weights of query {row}: {numbers(weights[row])}",
        "they sum to 1",
        f"{float(weights[row].sum()):.3f}",
        place=place,
    )


@torch.no_grad()
def _query_matters(subject: Subject) -> Finding:
    """Without tanh, the query adds the same number to every score, which the softmax cancels."""
    model, case = subject.model(), subject.case()
    before = subject.call(model, case).out
    after = subject.call(model, Case(case.x * -2 + 1, case.source, case.values)).out
    if not torch.allclose(before, after, atol=1e-5):
        return KEPT
    return broken(
        "one source, two different queries",
        "two different outputs",
        f"the same output for both: {numbers(before[0, 0, :3])} …",
        place=_softmax_place(subject),
    )


@torch.no_grad()
def _ignored_inputs(subject: Subject) -> Finding:
    """An attention whose output is the same for all inputs."""
    if not subject.kind.is_attention or subject.form.inputs != "vectors":
        return inapplicable("it is no attention")
    model, case = subject.model(), subject.case()
    inputs = (case, case.map(lambda t: t.flip(-1) * 2 + 1))
    before, after = (subject.call(model, one).out for one in inputs)
    if not torch.allclose(before, after, equal_nan=True):
        return KEPT
    return broken(
        "two different inputs",
        "two different outputs",
        f"the same output, {numbers(before[0, 0, :3])} …: the inputs are not used",
        place=_softmax_place(subject),
    )


def _heads(subject: Subject) -> Finding:
    if mixes_heads(subject):
        return inapplicable(HEADS_ARE_MIXED)
    found = attentions_of(subject)
    if not found:
        return inapplicable(NO_SOFTMAX)
    expected = subject.sizes.batch * subject.sizes.heads
    counts = [len(one.weights) for one in found]
    layers = subject.sizes.depth if "depth" in subject.constructor_roles.values() else 1
    if min(counts) >= expected or sum(counts) >= expected * layers:  # each head may be a module of its own
        return KEPT
    return broken(
        f"{subject.sizes.heads} heads, {subject.sizes.batch} sequences",
        f"{expected} attention maps, one for each head of each sequence",
        f"{min(counts)}",
        place=found[0].softmax.place,
    )


def _output_projection(subject: Subject) -> Finding:
    result, steps = subject.trace(subject.model(), subject.case())
    found = attentions(steps)
    if not found or found[-1].output is None:
        return inapplicable(NO_SOFTMAX)
    last = next(index for index, step in enumerate(steps) if step.output is found[-1].output)
    if any(step.name in (*PRODUCTS, "convolution") for step in steps[last + 1 :]):
        return KEPT
    others = [name for name in subject.namespace if re.search(r"(self|att\w*)output$", name.lower())]
    if others or subject.name.lower().startswith("bert"):
        return inapplicable("the output projection is in another class, as in BERT")
    return broken(
        "the concatenated outputs of the heads",
        "one more matrix combines them: Concat(head_1, …) W_o",
        "they are returned unchanged"
        if same_values(result.out, found[-1].output)
        else "no matrix is applied to them",
    )


PROMISES = (
    Promise(
        "softmax-axis",
        "the softmax runs over the keys",
        _softmax_axis,
        "scores have the shape (…, queries, keys): use softmax(dim=-1), not dim=1 or dim=-2",
    ),
    Promise(
        "rows-sum-to-one",
        "the attention weights of each query sum to 1",
        _rows_sum_to_one,
        "weights are changed after the softmax: apply masks to the scores, before the softmax",
    ),
    Promise(
        "query-matters",
        "the attention weights depend on the query",
        _ignored_inputs,
        "compute queries, keys and values from the arguments of forward",
        variant="inputs",
    ),
    Promise(
        "query-matters",
        "the attention weights depend on the query",
        _query_matters,
        "the tanh of w·tanh(W_q q + W_k k) is missing: without it, the query adds the same number to every "
        "score, and the softmax cancels it",
    ),
    Promise(
        "heads",
        "there is one attention map per head",
        _heads,
        "the constructor takes a number of heads, but forward does not split queries, keys and values by it",
    ),
    Promise(
        "output-projection",
        "an output projection combines the heads",
        _output_projection,
        "W_o is created in the constructor but not applied in forward, after the heads are concatenated",
    ),
)
