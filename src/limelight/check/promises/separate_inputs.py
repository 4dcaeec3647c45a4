"""Promises that only show with different queries, keys and values."""

import torch
from torch import Tensor, nn

from limelight.check.harness.argument_names import call_role
from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.ablation import is_passed_through, zero_sublayers
from limelight.check.instruments.op_trace import Step
from limelight.check.instruments.parts import hidden_widths
from limelight.check.places import Place
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable
from limelight.check.report import Finding


@torch.no_grad()
def _adds_query(subject: Subject) -> Finding:
    """If all sub-layers return zeros, a block returns its query, not its key or its value."""
    names = {call_role(p.name): p.name for p in subject.parameters}
    model = subject.model()
    if not {"query", "value"} <= set(names) or not isinstance(model, nn.Module) or subject.form.time_first:
        return inapplicable("it does not take queries and values separately")
    zero_sublayers(model, "all", hidden_widths(subject))
    tensors = {role: subject.case(seed=seed).x for seed, role in enumerate(("query", "value", "key"), 1)}
    with subject.with_arguments(**{names[role]: x for role, x in tensors.items() if role in names}):
        result, steps = subject.trace(model, subject.case())
    passed = [role for role, x in tensors.items() if is_passed_through(result.out, x)]
    if not passed or passed[0] == "query":
        return KEPT if passed else inapplicable("its residuals were not found")
    return broken(
        "different queries, keys and values; the weights of all sub-layers are 0",
        "query + 0: the output is the query, unchanged or normalised",
        f"it is the {passed[0]}: the residual adds the {passed[0]}",
        place=_place_of_addition(steps, tensors[passed[0]]),
    )


def _place_of_addition(steps: list[Step], tensor: Tensor) -> Place | None:
    for step in steps:
        added = [value for value in step.inputs if isinstance(value, Tensor) and value.shape == tensor.shape]
        if step.name.rstrip("_") == "add" and any(torch.equal(value, tensor) for value in added):
            return step.place
    return None


@torch.no_grad()
def _is_additive(subject: Subject) -> Finding:
    """The argument of tanh is f(q) + g(k): another query changes it by the same amount for every key."""
    model, one, other = subject.model(), subject.case(), subject.case(seed=2)
    found: list[Step] = []
    for queries in (one, other):
        for keys in (one, other):
            _, steps = subject.trace(model, Case(queries.x, keys.source, keys.values))
            found += [step for step in steps if step.name.rstrip("_") == "tanh"][:1]
    if len(found) != 4 or len({step.output.shape for step in found}) > 1:
        return inapplicable("no tanh was found in its computation")
    first, second, third, fourth = (step.inputs[0] for step in found)
    if torch.allclose(first - second, third - fourth, atol=1e-3):
        return KEPT
    return broken(
        "the argument of tanh for two queries and two keys",
        "W_q q + W_k k: another key changes it by the same amount for both queries",
        "the amounts differ: queries and keys are not added",
        place=found[0].place,
    )


PROMISES = (
    Promise(
        "residual",
        "the input of each sub-layer is added to its output",
        _adds_query,
        "attention has one output per query: write query + attention(query, key, value)",
        variant="query",
    ),
    Promise(
        "additive-scores",
        "queries and keys are added before the tanh",
        _is_additive,
        "the scores are w·tanh(W_q q + W_k k) (Bahdanau et al. 2015): add both, with broadcasting",
    ),
)
