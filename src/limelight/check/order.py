"""Promises about positions: which may know of which, and that none is special where none should be."""

import inspect
import re
from dataclasses import replace

import torch
from torch import Tensor

from limelight.check.influence import changed, influence
from limelight.check.outcome import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned
from limelight.check.subject import DECODERS, Case, MaskArgument, Subject
from limelight.check.ways import past

CAUSAL_NAME = re.compile(r"causal|masked|gpt|decod|autoregress|language", re.IGNORECASE)

CAUSAL_WORD = re.compile(
    r"causal|masked(?!_fill)|gpt|decod|autoregress|language|future|block_size|context", re.IGNORECASE
)


def free_influence(subject: Subject, *, training: bool = False) -> Tensor:
    """-> (B, T, T), who changes whom with every mask said that is needed, and none hidden"""
    own = subject.has_source
    return influence(
        subject, subject.model(training=training), subject.case(), _causal(subject), of_itself=own
    )


def _causal(subject: Subject) -> dict[str, Tensor]:
    """A decoder that is told who may look at whom is told it."""
    case = subject.case()
    length = case.x.shape[1]
    allowed = past(len(case.x), length, length)
    if subject.kind not in (*DECODERS, "sequence-model") or not subject.has_source:
        return {}
    masks = [mask for mask in subject.masks if not mask.of_memory and mask.way and mask.way.can_say(allowed)]
    return {mask.name: allowed for mask in masks}


def is_causal(subject: Subject, *, training: bool = False) -> bool:
    """By its behaviour: no position knows of a later one, and each knows of those before it."""
    seen = free_influence(subject, training=training)
    future = torch.ones(seen.shape[1:], dtype=torch.bool).triu(1)
    return not bool(seen[:, future].any()) and bool(seen[:, future.mT].any())


def _should_be_causal(subject: Subject) -> bool:
    if subject.kind in DECODERS or (subject.kind == "sequence-model" and subject.has_source):
        return True
    return bool(CAUSAL_NAME.search(subject.name)) or any(
        is_causal(subject, training=t) for t in (False, True)
    )


def _causality(subject: Subject) -> Outcome:
    if subject.case().x.shape[1] < 2 or not _should_be_causal(subject):
        return inapplicable("it is not meant to be causal")
    unasked = _half_causal(subject)
    if unasked is not None:
        return unasked
    for training in (True, False):
        seen = free_influence(subject, training=training)
        future = torch.ones(seen.shape[1:], dtype=torch.bool).triu(1)
        when = "training" if training else "evaluation"
        if seen[:, future].any():
            _, t, s = (seen & future).nonzero()[0].tolist()
            if (
                not training
                and not _causal(subject)
                and _keeps_state(subject)
                and _step_by_step(subject).verdict == "pass"
            ):
                return warned(
                    f"{seen.shape[1]} positions at once, in evaluation; position {s} is changed",
                    f"output {t} stays as it is",
                    "it changes: only one token at a time is decoded without a look ahead",
                    "a validation loss over whole targets sees the future: mask it in evaluation, too",
                )
            return broken(
                f"{seen.shape[1]} positions, in {when}; position {s} is changed",
                f"output {t} comes before it and stays as it is",
                "it changes",
            )
        for mask in subject.masks:
            if _shows_the_future(subject, mask, training=training):
                return broken(
                    f"{seen.shape[1]} positions, in {when}, with {mask.name} ({mask.way})",
                    "a mask of padding comes on top of the hidden future",
                    "it takes its place: outputs know of later positions",
                )
        if not seen[:, future.mT].all() and subject.kind != "sequence-model":
            _, t, s = (~seen & future.mT).nonzero()[0].tolist()
            return broken(
                f"{seen.shape[1]} positions, in {when}; position {s} is changed",
                f"output {t} comes after it and changes",
                "it stays: the past is hidden",
            )
    return KEPT


def _half_causal(subject: Subject) -> Outcome | None:
    """Told nothing, a decoder may show everything or hide the future; not some of it, nor only at times."""
    if not _causal(subject) or any(mask.required for mask in subject.masks):
        return None
    case, seen = subject.case(), []
    for training in (True, False):
        seen.append(influence(subject, subject.model(training=training), case, of_itself=True))
    future = torch.ones(seen[0].shape[1:], dtype=torch.bool).triu(1)
    shares = [float(one[:, future].float().mean()) for one in seen]
    if shares in ([0.0, 0.0], [1.0, 1.0]):
        return None
    return broken(
        f"{case.x.shape[1]} positions, and no mask is given",
        "the future is hidden, in training and in evaluation (or everything is shown, in both)",
        f"of pairs that look ahead, {shares[0]:.0%} are seen in training and {shares[1]:.0%} in evaluation",
    )


def _shows_the_future(subject: Subject, mask: MaskArgument, *, training: bool) -> bool:
    """Whether a mask that can only say what is padding makes the future visible."""
    if mask.of_memory or mask.way is None or not mask.effect or "T" in mask.way.layout or _causal(subject):
        return False
    case = subject.case()
    everything = torch.ones(len(case.x), case.x.shape[1], case.x.shape[1], dtype=torch.bool)
    model = subject.model(training=training)
    seen = influence(subject, model, case, {mask.name: everything}, of_itself=subject.has_source)
    return bool((seen & everything.triu(1)).any())


def _works(subject: Subject) -> bool:
    """Whether who may look at whom is asked for, so that nothing should be hidden unasked."""
    return any(mask.effect and mask.role == "mask" for mask in subject.masks)


def _keeps_state(subject: Subject) -> bool:
    return "state" in subject.roles.values()


@torch.no_grad()
def _step_by_step(subject: Subject) -> Outcome:
    """One position at a time with the state carried along, against all positions at once."""
    if not _keeps_state(subject):
        return inapplicable("it carries no state from step to step")
    case = subject.case()
    # d2l's decoders must be given a state, and are causal in training alone.
    given = next(p for p in subject.parameters if subject.roles[p.name] == "state")
    whole = subject.call(subject.model(training=given.default is given.empty), case).out
    model = subject.model()
    outs, state = [], None
    for t in range(case.x.shape[1]):
        step = subject.call(model, replace(case, x=case.x[:, t : t + 1]), state=state, carry=True)
        if step.state is None:
            return inapplicable("it returns no state")
        state = step.state
        outs.append(step.out)
    stepped = torch.cat(outs, 1)
    wrong = changed(whole, stepped) & ~torch.isclose(whole, stepped, atol=1e-4, rtol=1e-3).flatten(2).all(-1)
    if not wrong.any():
        return KEPT
    b, t = wrong.nonzero()[0].tolist()
    return broken(
        f"{case.x.shape[1]} positions, one after the other with the state carried along; sequence {b}, "
        f"step {t}",
        f"as all at once: {numbers(whole[b, t].flatten()[:3])} …",
        f"{numbers(stepped[b, t].flatten()[:3])} …",
    )


@torch.no_grad()
def _permutation(subject: Subject) -> Outcome:
    if subject.form.inputs != "vectors" or subject.form.query != "BTD":
        return inapplicable("its positions are told apart, or there is only one")
    model, case = subject.model(), subject.case()
    if subject.kind in DECODERS or (not subject.has_source and is_causal(subject)):
        asked = CAUSAL_WORD.search(subject.name + source_of(subject)) or "causal" in subject.roles.values()
        named = subject.kind in DECODERS or CAUSAL_NAME.search(subject.name)
        if named or (asked and not _works(subject)):
            return inapplicable("it is causal: positions are told apart")
        if not _works(subject):
            return warned(
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
def _heads_apart(subject: Subject) -> Outcome:
    """Sequences of a batch know nothing of each other, queries nothing of other queries."""
    turned = wrong_axis(subject)
    if turned is not None:
        return turned
    model, case = subject.model(), subject.case()
    mixed = _batch_mixed(subject, model, case)
    if mixed is not None:
        return mixed
    if case.source is not None and subject.form.query == "BTD":
        x = case.x.clone()
        x[:, 0] += 3.0
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
    turned = wrong_axis(subject)
    if turned is not None:
        return turned
    found = _batch_mixed(subject, subject.model(training=subject.is_module), subject.case())
    return found or KEPT


@torch.no_grad()
def _told_apart(subject: Subject) -> Outcome:
    """One token at every place: only positions can make a difference."""
    case = subject.case()
    if subject.form.inputs != "tokens":
        return inapplicable("it takes vectors: positions are somebody else's")
    same = torch.full_like(case.x, 3)
    out = subject.call(subject.model(), replace(case, x=same)).out
    if out.dim() < 3 or changed(out[:, :1], out[:, 1:2]).any():
        return KEPT
    return warned(
        f"the same token {same.shape[1]} times",
        "an output for each place",
        f"the same: {numbers(out[0, :2, :2])}",
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
    Promise(
        "causality",
        "no output knows of a later position, in training and in evaluation",
        _causality,
        "torch.tril shows the past and the position itself; triu(diagonal=1) is what to hide; and in "
        "eval() the future "
        "is still the future",
    ),
    Promise(
        "incremental",
        "step by step with the state gives the same as all at once",
        _step_by_step,
        "the state keeps what went *into* the attention of each block, new after old",
    ),
)
