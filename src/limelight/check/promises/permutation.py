"""Promises about positions: which may know of which, and that none is special where none should be."""

import inspect
import re
from dataclasses import replace

import torch

from limelight.check.harness.inputs import DECODERS, Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import changed
from limelight.check.promises.causality import CAUSAL_NAME, CAUSAL_WORD, is_causal
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned
from limelight.check.promises.residuals import OF_POSITIONS


def _works(subject: Subject) -> bool:
    """Whether who may look at whom can be said, so that nothing should be hidden unasked."""
    ways = [mask.way for mask in subject.masks if mask.effect and mask.role == "mask"]
    return any(way is not None and "T" in way.layout for way in ways)


@torch.no_grad()
def _permutation(subject: Subject) -> Outcome:
    if subject.form.inputs != "vectors" or subject.form.query != "BTD":
        return inapplicable("its positions are told apart, or there is only one")
    model, case = subject.model(), subject.case()
    if subject.kind == "encoder" and _has_positions(subject):
        return inapplicable("it has positions of its own")
    if subject.kind in DECODERS or (not subject.has_source and is_causal(subject)):
        asked = CAUSAL_WORD.search(subject.name + source_of(subject)) or "causal" in subject.roles.values()
        named = subject.kind in DECODERS or CAUSAL_NAME.search(subject.name)
        if named or (asked and not _works(subject)):
            return inapplicable("it is causal: positions are told apart")
        if not _works(subject):
            say = broken if re.search(r"enc|bert|vit", subject.name, re.IGNORECASE) else warned
            return say(
                "nothing is said about who may look at whom",
                "all positions look at all",
                "none looks ahead: the future is hidden unasked",
                "a causal mask that was left in? If it is meant, say so in the name",
            )
    if case.source is not None:
        order = torch.tensor([2, 0, 3, 1])
        values = None if case.values is None else case.values[:, order]
        moved = subject.call(model, Case(case.x, case.source[:, order], values)).out
        before = subject.call(model, case).out
        if torch.allclose(moved, before, atol=1e-4):
            return KEPT
        what = "keys and values in another order"
    else:
        order = torch.tensor([2, 0, 1])
        before = subject.call(model, case).out[:, order]
        moved = subject.call(model, case.each(lambda t: t[:, order])).out
        if torch.allclose(moved, before, atol=1e-4):
            return KEPT
        what = "positions in another order"
    return broken(
        f"{what}: {order.tolist()}",
        f"the same outputs, in that order: {numbers(before[0, 0, :3])} …",
        f"{numbers(moved[0, 0, :3])} …",
    )


@torch.no_grad()
def _batch_first(subject: Subject) -> Outcome | None:
    """`batch_first` is accepted: then it makes a difference."""
    names = [name for name, role in subject.told_by.items() if role == "batch_first"]
    if not names or subject.form.time_first:
        return None
    try:
        one, other = (
            subject.call(subject.model(told={names[0]: first}), subject.case()).out for first in (True, False)
        )
    except Exception:  # (T, B, D) does not fit where (B, T, D) does
        return None
    if one.shape != other.shape or not torch.allclose(one, other, atol=1e-5):
        return None
    return broken(
        f"{names[0]}=True and {names[0]}=False, the same input",
        "two answers: the axis of the batch is another one",
        "the same answer: it is never looked at",
    )


@torch.no_grad()
def _heads_apart(subject: Subject) -> Outcome:
    """Sequences of a batch know nothing of each other, queries nothing of other queries."""
    turned = wrong_axis(subject) or _batch_first(subject)
    if turned is not None:
        return turned
    model, case = subject.model(), subject.case()
    mixed = _batch_mixed(subject, model, case)
    if mixed is not None:
        return mixed
    if case.source is not None and subject.form.query == "BTD":
        x = case.x.clone()
        x[:, 0] = x[:, 0].flip(-1) * 3
        before, after = subject.call(model, case).out, subject.call(model, replace(case, x=x)).out
        if changed(before, after)[:, 1:].any():
            return broken(
                "queries 0 and 1; query 0 is changed",
                "output 1 stays as it is",
                "it changes: positions are mixed",
            )
    moved = _permutation(subject)
    return moved if moved.verdict == "FAIL" and not is_causal(subject) else KEPT


def _batch_mixed(subject: Subject, model: object, case: Case) -> Outcome | None:
    x = case.x.clone()
    if x.is_floating_point():
        x[0] += torch.randn(x[0].shape)
    else:
        x[0] = 1 + (x[0] % (subject.sizes.vocabulary - 1))
    before, after = subject.call(model, case).out, subject.call(model, replace(case, x=x)).out
    shape = (len(before), -1)
    if not changed(before.reshape(*shape, 1), after.reshape(*shape, 1))[1:].any():
        return None
    return broken(
        "a batch of several sequences; the first one is changed",
        "the outputs of the others stay as they are",
        "they change: sequences of a batch are mixed",
        "is the batch's axis where the layer expects it? (batch_first, and reshape against transpose)",
    )


def wrong_axis(subject: Subject) -> Outcome | None:
    """Of something that takes positions first: whether it says that its batch stands there."""
    if not subject.form.time_first or subject.form.query != "BTD":
        return None
    said = says_batch_first(subject)
    if said is False:
        return None
    say = broken if said else warned
    return say(
        "x of (B, T, D); the first sequence of the batch is changed",
        "only its own output changes",
        "those of the others change: the first axis is taken for the positions",
        "nn.MultiheadAttention and nn.Transformer take (T, B, D) unless told batch_first=True; a table "
        "of (T, 1, D) "
        "is for such inputs. If that is what you feed it, all is well",
    )


BATCH = r"(b|bs|n|bsz|batch\w*|num_?batch\w*|nbatches)"
PLACES = r"(t|s|l|seq\w*|\w*len\w*|(num_?)?steps?|(n_?)?tokens?|places?|positions?|time|(num_?)?patches)"


def source_of(subject: Subject) -> str:
    try:
        return inspect.getsource(subject.target)
    except (OSError, TypeError):
        return ""


def says_batch_first(subject: Subject) -> bool | None:
    """By its code and comments: whether (batch, seq, …) or (seq, batch, …) stands there more often."""
    text = source_of(subject).lower()
    first = len(re.findall(rf"\b{BATCH}\s*,\s*{PLACES}\b", text))
    late = len(re.findall(rf"\b{PLACES}\s*,\s*{BATCH}\b", text))
    return None if first == late else first > late


@torch.no_grad()
def _batch_apart(subject: Subject) -> Outcome:
    turned = wrong_axis(subject) or _batch_first(subject)
    if turned is not None:
        return turned
    found = _batch_mixed(subject, subject.model(training=subject.is_module), subject.case())
    return found or KEPT


@torch.no_grad()
def _told_apart(subject: Subject) -> Outcome:
    """One token at every place: only positions can make a difference."""
    case = subject.case()
    unwanted = _without_positions(subject)
    if unwanted is not None:
        return unwanted
    if subject.form.inputs != "tokens":
        return inapplicable("it takes vectors: positions are somebody else's")
    same = torch.full_like(case.x, 3)
    result = subject.call(subject.model(), replace(case, x=same))
    out = result.out
    if result.pooled:
        return _order_matters(subject, case)
    if changed(out[:, :1], out[:, 1:2]).any():
        return KEPT
    say = broken if _has_positions(subject) else warned
    return say(
        f"the same token {same.shape[1]} times",
        "an output for each place",
        f"the same: {numbers(out[0, :2, :2])}",
    )


def _order_matters(subject: Subject, case: Case) -> Outcome:
    """Of one answer for all positions: whether it changes with their order."""
    model = subject.model()
    turned = subject.call(model, replace(case, x=case.x.flip(1))).out
    if changed(subject.call(model, case).out, turned).any() or not _has_positions(subject):
        return KEPT
    return broken("tokens in the opposite order", "another answer", "the same: positions are not told apart")


def _has_positions(subject: Subject) -> bool:
    """Whether something in it is named for positions, or has as many rows as there may be positions."""
    model = subject.model()
    names = [name.lower() for name, _ in (*model.named_modules(), *model.named_buffers())]
    tables = [p for p in model.parameters() if subject.sizes.longest in p.shape]
    return bool(tables) or any(re.search(rf"{OF_POSITIONS}|(^|[._])w?pe$", name) for name in names)


def _without_positions(subject: Subject) -> Outcome | None:
    """Where a call can ask for no positions: whether they are left out then."""
    flags = [
        p.name
        for p in subject.parameters
        if p.default is True and re.fullmatch(r"(add|use|with|include)_?pos\w*", p.name)
    ]
    if not flags or is_causal(subject):
        return None
    model, case, order = subject.model(), subject.case(), torch.tensor([2, 0, 1])
    with subject.asking(**{flags[0]: False}):
        before = subject.call(model, case).out
        moved = subject.call(model, case.each(lambda t: t[:, order])).out
    if torch.allclose(moved, before[:, order], atol=1e-4):
        return None
    return broken(
        f"{flags[0]}=False, and positions in another order",
        "the same outputs, in that order",
        "others: positions are added all the same",
    )


PROMISES = (
    Promise(
        "positions-differ",
        "positions are told apart",
        _told_apart,
        "positional encodings must be added, and each position must get its own",
    ),
    Promise(
        "heads-mix-positions",
        "heads mix neither positions nor sequences",
        _heads_apart,
        "split by view(B, T, H, K).transpose(1, 2), merge by transpose(1, 2).reshape(B, T, H·K): "
        "a reshape straight to (B, H, T, K) cuts positions into pieces",
    ),
    Promise(
        "batch-apart",
        "sequences of a batch know nothing of each other",
        _batch_apart,
        "a norm or an attention over the batch's axis",
    ),
    Promise(
        "permutation",
        "without positions, the order makes no difference",
        _permutation,
        "something tells positions apart that should not: a reshape that mixes axes, a weight for each "
        "position",
    ),
)
