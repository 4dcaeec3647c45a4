"""Promises about time: no output knows of a later position, and step by step gives what all at once gives."""

import re
from dataclasses import replace

import torch
from torch import Tensor

from limelight.check.harness.argument_names import call_role
from limelight.check.harness.inputs import BARE, DECODERS, Case, MaskArgument
from limelight.check.harness.mask_formats import past
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import changed, influence
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned

CAUSAL_NAME = re.compile(r"causal|masked|gpt|decod|autoregress|language", re.IGNORECASE)


CAUSAL_WORD = re.compile(
    r"causal|masked(?!_fill)|gpt|decod|autoregress|language|future|block_size|context_?(len|size|win)",
    re.IGNORECASE,
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
    return (
        bool(CAUSAL_NAME.search(subject.name))
        or any(is_causal(subject, training=t) for t in (False, True))
        or _with_targets(subject)
    )


def _with_targets(subject: Subject) -> bool:
    """Whether it is causal when it is told what to predict."""
    names = [p.name for p in subject.parameters if p.default is None and call_role(p.name) == "target"]
    if subject.kind != "sequence-model" or subject.form.inputs != "tokens" or not names:
        return False
    try:
        with subject.asking(**{names[0]: subject.case().x}):
            return is_causal(subject)
    except Exception:  # whatever their code raises: targets of another kind
        return False


def _on_demand(subject: Subject) -> Outcome | None:
    """Where a call can ask for it (`is_causal=True`): whether the future is hidden then."""
    flags = [
        p.name for p in subject.parameters if subject.roles.get(p.name) == "causal" and p.default is False
    ]
    case = subject.case(keys=subject.sizes.queries)
    if not flags or case.x.dim() != 3 or subject.form.query != "BTD" or subject.form.heads_axis:
        return None
    try:
        with subject.asking(**{flags[0]: True}):
            seen = influence(subject, subject.model(), case)
    except Exception:  # their code refuses it here
        return None
    past_ones = torch.ones(seen.shape[1:], dtype=torch.bool).tril()
    wrong = (seen != past_ones) & (seen | (case.source is not None))
    if not wrong.any():
        return None
    _, t, s = wrong.nonzero()[0].tolist()
    should = "changes" if s <= t else "stays as it is"
    does = "it stays" if s <= t else "it changes"
    return broken(
        f"{flags[0]}=True, {len(past_ones)} positions; position {s} is changed", f"output {t} {should}", does
    )


def _causality(subject: Subject) -> Outcome:
    wrong = _on_demand(subject)
    if wrong is not None:
        return wrong
    if subject.kind in BARE:
        return inapplicable("it is not asked for")
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


def _keeps_state(subject: Subject) -> bool:
    return "state" in subject.roles.values()


def _stepped(subject: Subject, case: Case) -> Tensor | None:
    """All outputs of one position at a time; None where nothing is carried from step to step.

    A state comes back, or a box that was handed in empty is filled: one, or one for each layer.
    """
    boxes: tuple[object, ...] = (None, {}, [{} for _ in range(subject.sizes.depth)])
    trouble: Exception | None = None
    for box in boxes:
        try:
            stepped = _stepped_with(subject, case, box)
        except Exception as error:  # whatever their code raises: another kind of cache
            trouble = trouble or error
            continue
        if stepped is not None:
            return stepped
    if trouble is not None:
        raise trouble
    return None


def _stepped_with(subject: Subject, case: Case, state: object) -> Tensor | None:
    model, outs = subject.model(), []
    for t in range(case.x.shape[1]):
        step = subject.call(model, replace(case, x=case.x[:, t : t + 1]), state=state, carry=True)
        state = state if step.state is None else step.state
        if _is_empty(state):
            return None
        outs.append(step.out)
    return torch.cat(outs, 1)


def _is_empty(state: object) -> bool:
    parts = state if isinstance(state, list) else [state]
    return all(part is None or (isinstance(part, dict) and not part) for part in parts)


@torch.no_grad()
def _step_by_step(subject: Subject) -> Outcome:
    """One position at a time with the state carried along, against all positions at once."""
    if not _keeps_state(subject):
        return inapplicable("it carries no state from step to step")
    case = subject.case()
    # d2l's decoders must be given a state, and are causal in training alone.
    given = next(p for p in subject.parameters if subject.roles[p.name] == "state")
    whole = subject.call(subject.model(training=given.default is given.empty), case).out
    stepped = _stepped(subject, case)
    if stepped is None:
        return inapplicable("it returns no state")
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


PROMISES = (
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
