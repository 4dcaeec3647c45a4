"""Promises about causality: no output depends on a later position; decoding step by step changes nothing."""

import re

import torch
from torch import Tensor, nn

from limelight.check.harness.argument_names import call_role
from limelight.check.harness.inputs import MaskArgument
from limelight.check.harness.subject import Subject
from limelight.check.instruments.causal_behaviour import (
    CAUSAL_NAME,
    causal_masks,
    is_causal,
    masks_of_caller,
    self_attentions,
    self_influence,
)
from limelight.check.instruments.influence import influence
from limelight.check.instruments.step_by_step import compare_steps, has_state
from limelight.check.places import Place
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, warned
from limelight.check.report import Finding


def _should_be_causal(subject: Subject) -> bool:
    if subject.kind.is_decoder or (subject.kind.may_have_memory and subject.has_source):
        return True
    return (
        bool(CAUSAL_NAME.search(subject.name))
        or any(is_causal(subject, training=training) for training in (False, True))
        or _is_causal_with_targets(subject)
        or _hides_the_past(self_influence(subject))
    )


def _hides_the_past(found: Tensor) -> bool:
    """Whether outputs depend on later positions, and on no earlier one: an inverted mask."""
    future = torch.ones(found.shape[1:], dtype=torch.bool).triu(1)
    return bool(found[:, future].any()) and not bool(found[:, future.mT].any())


def _is_causal_with_targets(subject: Subject) -> bool:
    """Whether a model is causal if it also gets the targets of its loss."""
    names = [p.name for p in subject.parameters if p.default is None and call_role(p.name) == "target"]
    if not subject.kind.reads_tokens or subject.form.inputs != "tokens" or not names:
        return False
    try:
        with subject.with_arguments(**{names[0]: subject.case().x}):
            return is_causal(subject)
    except Exception:  # targets of another kind
        return False


def _causal_on_request(subject: Subject) -> Finding | None:
    """If a call takes an argument such as `is_causal=True`, it must hide the future."""
    flags = [
        p.name for p in subject.parameters if subject.roles.get(p.name) == "causal" and p.default is False
    ]
    case = subject.case(keys=subject.sizes.queries)
    if not flags or case.x.dim() != 3 or subject.form.query != "BTD" or subject.form.heads_axis:
        return None
    try:
        with subject.with_arguments(**{flags[0]: True}):
            found = influence(subject, subject.model(), case)
    except Exception:  # the checked code does not accept it for this input
        return None
    past = torch.ones(found.shape[1:], dtype=torch.bool).tril()
    wrong = (found != past) & (found | (case.source is not None))
    if not wrong.any():
        return None
    _, t, s = wrong.nonzero()[0].tolist()
    does_change, does_not = "changes", "does not change"
    return broken(
        f"{flags[0]}=True, {len(past)} positions; position {s} is changed",
        f"output {t} {does_change if s <= t else does_not}",
        f"it {does_not if s <= t else does_change}",
    )


def _causality(subject: Subject) -> Finding:
    wrong = _causal_on_request(subject)
    if wrong is not None:
        return wrong
    if subject.kind.is_bare:
        return inapplicable("it takes no argument that makes it causal")
    if subject.kind.is_attention and subject.has_source:
        return _causal_keys(subject)
    if subject.case().x.shape[1] < 2 or not _should_be_causal(subject):
        return _sees_next_token(subject) or inapplicable("it is not meant to be causal")
    if _is_causal_by_caller(subject):
        return KEPT
    wrong = _partly_causal(subject)
    if wrong is not None:
        return wrong
    for training in (True, False):
        wrong = _wrong_influence(subject, training=training)
        if wrong is not None:
            return wrong
    return KEPT


def _is_causal_by_caller(subject: Subject) -> bool:
    """Whether it attends to all positions, except if the caller gives it a causal mask."""
    masks = {} if causal_masks(subject) else masks_of_caller(subject)
    if not masks:
        return False
    future = torch.ones(subject.case().x.shape[1], subject.case().x.shape[1], dtype=torch.bool).triu(1)
    without, with_mask = (self_influence(subject, masks=given)[:, future] for given in ({}, masks))
    return bool(without.all()) and not bool(with_mask.any())


def _causal_keys(subject: Subject) -> Finding:
    """An attention to other keys that is causal by its name, without a mask."""
    if not CAUSAL_NAME.search(subject.name) or subject.masks or subject.form.query != "BTD":
        return inapplicable("it is not meant to be causal, or gets its mask from the caller")
    found = influence(subject, subject.model(), subject.case(keys=subject.sizes.queries))
    future = found & torch.ones(found.shape[1:], dtype=torch.bool).triu(1)
    if not future.any():
        return KEPT
    _, t, s = future.nonzero()[0].tolist()
    return broken(
        f"{found.shape[1]} queries and keys; key {s} is changed",
        f"output {t} is before it and does not change",
        "it changes: the future is visible",
    )


def _sees_next_token(subject: Subject) -> Finding | None:
    """A model that predicts a token at every position, and could read it from the next position."""
    model, case = subject.model(), subject.case()
    if not subject.kind.reads_tokens or subject.has_source or subject.form.inputs != "tokens":
        return None
    result = subject.call(model, case)
    vocabularies = {part.num_embeddings for part in model.modules() if isinstance(part, nn.Embedding)}
    is_other = re.search(r"bert|mlm|tag|label|classif|encoder|predictor", subject.name, re.IGNORECASE)
    if result.pooled or result.out.shape[-1] not in vocabularies or is_other or masks_of_caller(subject):
        return None
    if not bool(self_influence(subject)[:, :-1, -1].any()):
        return None
    return warned(
        f"{case.x.shape[1]} tokens; the last one is changed. The output has one value for each of "
        f"{result.out.shape[-1]} tokens at every position",
        "if it predicts the next token, earlier outputs do not change",
        "they change, and it takes no mask: it can read the next token instead of predicting it",
        "a language model needs a causal mask in its attention; for another task, ignore this",
    )


def _wrong_influence(subject: Subject, *, training: bool) -> Finding | None:
    found = self_influence(subject, training=training)
    future = torch.ones(found.shape[1:], dtype=torch.bool).triu(1)
    mode = "training" if training else "evaluation"
    count = found.shape[1]
    if found[:, future].any():
        _, t, s = (found & future).nonzero()[0].tolist()
        if not training and _is_causal_step_by_step(subject):
            return warned(
                f"{count} positions at once, in evaluation; position {s} is changed",
                f"output {t} does not change",
                "it changes: the future is only hidden if tokens are decoded one at a time",
                "the mask is only applied in training, so that a validation loss over whole targets uses the "
                "future: apply it in evaluation, too",
            )
        return broken(
            f"{count} positions, in {mode}; position {s} is changed",
            f"output {t} is before it and does not change",
            "it changes: the future is visible"
            + (", and the past is hidden: the mask is inverted" if _hides_the_past(found) else ""),
            place=_place_of_future(subject, training=training),
        )
    for mask in subject.masks:
        if _replaces_causal_mask(subject, mask, training=training):
            return broken(
                f"{count} positions, in {mode}, with {mask.name} ({mask.format})",
                "the padding mask is combined with the causal mask",
                "it replaces the causal mask: outputs depend on later positions",
            )
    unseen = ~found.any(0) & future.mT  # in no sequence: a weight may be zero by chance in one of them
    if unseen.any() and not subject.kind.reads_tokens:
        t, s = unseen.nonzero()[0].tolist()
        return broken(
            f"{count} positions, in {mode}; position {s} is changed",
            f"output {t} is after it and changes",
            "it does not change: the past is hidden",
        )
    return None


def _place_of_future(subject: Subject, *, training: bool) -> Place | None:
    """The line of the first attention whose weights are not zero at later positions."""
    for one in self_attentions(subject, training=training):
        if bool(one.weights.triu(1).any()):
            return (one.masking or one.softmax).place
    return None


def _is_causal_step_by_step(subject: Subject) -> bool:
    """Whether the future is hidden by decoding one position at a time, without a causal mask."""
    if causal_masks(subject) or not has_state(subject):
        return False
    found = compare_steps(subject)
    return found is not None and (found.first_difference is None or found.only_positions_differ)


def _partly_causal(subject: Subject) -> Finding | None:
    """Without a mask, a decoder may hide the future or not, but not a part of it, nor in one mode only."""
    if not causal_masks(subject) or any(mask.required for mask in subject.masks):
        return None
    case, found = subject.case(), []
    for training in (True, False):
        found.append(influence(subject, subject.model(training=training), case, of_itself=True))
    future = torch.ones(found[0].shape[1:], dtype=torch.bool).triu(1)
    shares = [float(one[:, future].float().mean()) for one in found]
    if shares in ([0.0, 0.0], [1.0, 1.0]):
        return None
    return broken(
        f"{case.x.shape[1]} positions, without a mask",
        "later positions are hidden in training and in evaluation, or in neither",
        f"{shares[0]:.0%} of later positions have an influence in training, {shares[1]:.0%} in evaluation",
    )


def _replaces_causal_mask(subject: Subject, mask: MaskArgument, *, training: bool) -> bool:
    """Whether a padding mask makes later positions visible."""
    if mask.over_memory or mask.format is None or not mask.has_effect or "T" in mask.format.layout:
        return False
    if causal_masks(subject):
        return False
    case = subject.case()
    everything = torch.ones(len(case.x), case.x.shape[1], case.x.shape[1], dtype=torch.bool)
    model = subject.model(training=training)
    found = influence(subject, model, case, {mask.name: everything}, of_itself=subject.has_source)
    return bool((found & everything.triu(1)).any())


PROMISES = (
    Promise(
        "causality",
        "no output depends on a later position, in training and in evaluation",
        _causality,
        "torch.tril(ones) is True where a position may attend, torch.triu(ones, diagonal=1) where it may "
        "not; the mask is also needed in eval()",
    ),
)
