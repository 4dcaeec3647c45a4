"""Promises about the order of positions, and about sequences and positions that must not be mixed."""

import inspect
import re
from contextlib import suppress
from dataclasses import replace

import torch
from torch import nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.batch_axis import POSITIONS_FIRST_HINT, positions_first_verdict
from limelight.check.instruments.causal_behaviour import (
    CAUSAL_CODE,
    CAUSAL_NAME,
    is_causal,
    self_attentions,
)
from limelight.check.instruments.influence import differs
from limelight.check.instruments.op_trace import attentions
from limelight.check.instruments.parts import POSITION_NAME, mixes_heads
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding

# Positions inside the attention, so that the order matters.
RELATIVE = re.compile(r"alibi|relative_?(pos|emb|bias)|rel_?pos|rotary|rope\b", re.IGNORECASE)


def _masks_by_itself(subject: Subject, case: Case) -> bool:
    """Whether some attention weights are zero although no mask is given."""
    _, steps = subject.trace(subject.model(), case)
    return any(bool((one.weights == 0).any()) for one in attentions(steps))


def _takes_pairwise_mask(subject: Subject) -> bool:
    """Whether a mask can restrict each query separately, so that nothing should be hidden without one."""
    formats = [mask.format for mask in subject.masks if mask.has_effect and mask.role == "mask"]
    return any(one is not None and "T" in one.layout for one in formats)


def _source_of_parts(subject: Subject) -> str:
    """The code of the object, and of the modules that it consists of."""
    model = subject.model()
    parts = {type(part) for part in model.modules()} if isinstance(model, nn.Module) else set()
    own = [part for part in parts if not part.__module__.startswith("torch.")]
    with suppress(OSError, TypeError):  # classes without a file
        return "\n".join([subject.source_code, *map(inspect.getsource, own)])
    return subject.source_code


@torch.no_grad()
def _permutation(subject: Subject) -> Finding:
    if subject.form.inputs != "vectors" or subject.form.query != "BTD":
        return inapplicable("it has positional encodings, or takes one query only")
    model, case = subject.model(), subject.case()
    if RELATIVE.search(f"{subject.name} {_source_of_parts(subject)}") or (
        subject.kind.is_stack and _has_positions(subject)
    ):
        return inapplicable("it has positional encodings")
    if not subject.has_source and is_causal(subject):
        mentioned = (
            CAUSAL_CODE.search(subject.name + subject.source_code) or "causal" in subject.roles.values()
        )
        takes_mask = _takes_pairwise_mask(subject)
        if CAUSAL_NAME.search(subject.name) or (mentioned and not takes_mask):
            return inapplicable("it is causal, so that the order matters")
        is_encoder = re.search(r"enc|bert|vit", subject.name, re.IGNORECASE)
        if not takes_mask and not is_encoder and re.search(r"tri[lu]\b", _source_of_parts(subject)):
            return inapplicable("it has a causal mask of its own, so that the order matters")
        if not takes_mask:
            conclude = broken if is_encoder else warned
            return conclude(
                "no mask is given",
                "every position attends to all positions",
                "no position attends to a later one",
                "a causal mask was left in the code; if it is intended, put `causal` into the name",
            )
    if case.source is not None and _masks_by_itself(subject, case):
        return inapplicable("it is causal, so that the order matters")
    if case.source is not None:
        order = torch.tensor([2, 0, 3, 1])
        values = None if case.values is None else case.values[:, order]
        after = subject.call(model, Case(case.x, case.source[:, order], values)).out
        before = subject.call(model, case).out
        if torch.allclose(after, before, atol=1e-4):
            return KEPT
        if subject.kind.is_bare and _is_symmetric_in_keys(subject):
            return inapplicable("it expects as many keys as queries")
        example, expected = "keys and values", "the same outputs"
    else:
        order = torch.tensor([2, 0, 1])
        before = subject.call(model, case).out[:, order]
        after = subject.call(model, case.map(lambda t: t[:, order])).out
        if torch.allclose(after, before, atol=1e-4):
            return KEPT
        example, expected = "positions", "the same outputs, in that order"
    return broken(
        f"{example} in another order: {order.tolist()}",
        f"{expected}: {numbers(before[0, 0, :3])} …",
        f"{numbers(after[0, 0, :3])} …",
    )


def _is_symmetric_in_keys(subject: Subject) -> bool:
    """Whether the order of the keys does not matter if there are as many keys as queries."""
    model, case = subject.model(), subject.case(keys=subject.sizes.queries)
    reversed_case = replace(
        case,
        source=None if case.source is None else case.source.flip(1),
        values=None if case.values is None else case.values.flip(1),
    )
    one, other = (subject.call(model, each).out for each in (case, reversed_case))
    return bool(torch.allclose(one, other, atol=1e-4))


@torch.no_grad()
def _batch_first_ignored(subject: Subject) -> Finding | None:
    """If the constructor takes `batch_first`, it must have an effect."""
    names = [name for name, role in subject.constructor_roles.items() if role == "batch_first"]
    if not names or subject.form.time_first:
        return None
    try:
        one, other = (
            subject.call(subject.model(given={names[0]: first}), subject.case()).out
            for first in (True, False)
        )
    except Exception:  # (T, B, D) does not fit where (B, T, D) does
        return None
    if one.shape != other.shape or not torch.allclose(one, other, atol=1e-5):
        return None
    return broken(
        f"{names[0]}=True and {names[0]}=False, the same input",
        "two different outputs, as the batch is on another axis",
        "the same output: the argument is ignored",
    )


def _positions_first(subject: Subject) -> Finding | None:
    verdict = positions_first_verdict(subject)
    if verdict is None:
        return None
    return Finding(
        verdict=verdict,
        example="x of (B, T, D); the first sequence of the batch is changed",
        expected="only its own output changes",
        got="the outputs of other sequences change: the first axis is used as the axis of the positions",
        hint=POSITIONS_FIRST_HINT,
    )


@torch.no_grad()
def _heads_do_not_mix(subject: Subject) -> Finding:
    """Sequences of a batch do not influence each other, and neither do queries."""
    wrong = _positions_first(subject) or _batch_first_ignored(subject)
    if wrong is not None:
        return wrong
    model, case = subject.model(), subject.case()
    wrong = _mixed_batch(subject, model, case)
    if wrong is not None:
        return wrong
    if case.source is not None and subject.form.query == "BTD":
        x = case.x.clone()
        x[:, 0] = x[:, 0].flip(-1) * 3
        before, after = subject.call(model, case).out, subject.call(model, replace(case, x=x)).out
        if differs(before, after)[:, 1:].any():
            _, steps = subject.trace(model, case)
            sees_queries = any(one.weights.shape[-1] > case.keys for one in attentions(steps))
            if sees_queries or mixes_heads(subject):
                return inapplicable("it attends to its queries and other positions, too")
            return broken(
                "queries 0 and 1; query 0 is changed",
                "output 1 does not change",
                "it changes: positions are mixed",
            )
    permuted = _permutation(subject)
    if permuted.verdict != "FAIL" or is_causal(subject):
        return KEPT
    found = self_attentions(subject)
    is_masked = any(bool((one.weights == 0).any() or one.weights.isnan().any()) for one in found)
    # Masked weights depend on the order of positions; but causal ones hide the future.
    are_causal = is_masked and not any(bool(one.weights.triu(1).any()) for one in found)
    return permuted if not is_masked or are_causal else KEPT


def _mixed_batch(subject: Subject, model: object, case: Case) -> Finding | None:
    x = case.x.clone()
    if x.is_floating_point():
        x[0] += torch.randn(x[0].shape)
    else:
        x[0] = 1 + (x[0] % (subject.sizes.vocabulary - 1))
    before, after = subject.call(model, case).out, subject.call(model, replace(case, x=x)).out
    shape = (len(before), -1)
    if not differs(before.reshape(*shape, 1), after.reshape(*shape, 1))[1:].any():
        return None
    return broken(
        "a batch of several sequences; the first one is changed",
        "the outputs of the others do not change",
        "they change: sequences of a batch are mixed",
        "the batch is not on the axis that the layer expects (batch_first=True is missing), or a reshape is "
        "used where a transpose is needed",
    )


@torch.no_grad()
def _sequences_are_independent(subject: Subject) -> Finding:
    wrong = _positions_first(subject) or _batch_first_ignored(subject)
    if wrong is not None:
        return wrong
    found = _mixed_batch(subject, subject.model(training=subject.is_module), subject.case())
    return found or KEPT


@torch.no_grad()
def _positions_differ(subject: Subject) -> Finding:
    """The same token at every position: only positional encodings can make a difference."""
    case = subject.case()
    wrong = _positions_not_left_out(subject)
    if wrong is not None:
        return wrong
    if subject.form.inputs != "tokens":
        return inapplicable("it takes vectors: positions are added before it")
    same = torch.full_like(case.x, 3)
    result = subject.call(subject.model(), replace(case, x=same))
    out = result.out
    if result.pooled:
        return _order_matters(subject, case)
    if differs(out[:, :1], out[:, 1:2]).any():
        return KEPT
    if not _has_positions(subject) and not _attends(subject, case):
        return inapplicable("it has no attention")
    if "embedding-part" in subject.constructor_roles.values():
        return inapplicable("its embeddings are arguments of its constructor")
    if _has_relative_positions(subject):
        return inapplicable("its positions are relative, which equal tokens do not show")
    conclude = broken if _has_positions(subject) else warned
    return conclude(
        f"the same token {same.shape[1]} times",
        "a different output at each position",
        f"the same output: {numbers(out[0, :2, :2])}",
    )


def _attends(subject: Subject, case: Case) -> bool:
    _, steps = subject.trace(subject.model(), case)
    return bool(attentions(steps))


def _has_relative_positions(subject: Subject) -> bool:
    """Whether a part rotates queries and keys, or adds a bias to the scores, by the names in its code."""
    codes = [
        type(part) for part in subject.model().modules() if not type(part).__module__.startswith("torch.")
    ]
    pattern = re.compile(r"rope\b|rotary|rotate_half|alibi|relative_?(pos|bias)", re.IGNORECASE)
    for code in codes:
        with suppress(OSError, TypeError):  # its source cannot be read
            if pattern.search(inspect.getsource(code)):
                return True
    return False


def _order_matters(subject: Subject, case: Case) -> Finding:
    """Whether the single output of a model changes with the order of the tokens."""
    model = subject.model()
    reversed_out = subject.call(model, replace(case, x=case.x.flip(1))).out
    if differs(subject.call(model, case).out, reversed_out).any() or not _has_positions(subject):
        return KEPT
    return broken(
        "the tokens in reverse order", "another output", "the same output: positions have no effect"
    )


def _has_positions(subject: Subject) -> bool:
    """Whether a part is named after positions, or a table has as many rows as the maximum length."""
    model = subject.model()
    names = [name.lower() for name, _ in (*model.named_modules(), *model.named_buffers())]
    tables = [p for p in model.parameters() if subject.sizes.longest in p.shape]
    return bool(tables) or any(re.search(rf"{POSITION_NAME}|(^|[._])w?pe$", name) for name in names)


def _positions_not_left_out(subject: Subject) -> Finding | None:
    """If a call takes an argument such as `add_pos=False`, positions must be left out."""
    flags = [
        p.name
        for p in subject.parameters
        if p.default is True and re.fullmatch(r"(add|use|with|include)_?pos\w*", p.name)
    ]
    if not flags or is_causal(subject):
        return None
    model, case, order = subject.model(), subject.case(), torch.tensor([2, 0, 1])
    with subject.with_arguments(**{flags[0]: False}):
        before = subject.call(model, case).out
        after = subject.call(model, case.map(lambda t: t[:, order])).out
    if torch.allclose(after, before[:, order], atol=1e-4):
        return None
    return broken(
        f"{flags[0]}=False, and positions in another order",
        "the same outputs, in that order",
        "other outputs: positions are added although they should not be",
    )


PROMISES = (
    Promise(
        "positions-differ",
        "the same token gets another output at another position",
        _positions_differ,
        "positional encodings are not added, or every position gets the same one",
        variant="tokens",
    ),
    Promise(
        "heads-mix-positions",
        "the split into heads mixes neither positions nor sequences",
        _heads_do_not_mix,
        "split by view(B, T, H, K).transpose(1, 2) and merge by transpose(1, 2).reshape(B, T, H·K): a "
        "reshape directly to (B, H, T, K) mixes positions",
    ),
    Promise(
        "batch-apart",
        "the sequences of a batch do not influence each other",
        _sequences_are_independent,
        "a norm, a softmax or an attention runs over the axis of the batch",
    ),
    Promise(
        "permutation",
        "without positional encodings, the order of the positions does not matter",
        _permutation,
        "a reshape mixes axes, or there are weights for each position",
    ),
)
