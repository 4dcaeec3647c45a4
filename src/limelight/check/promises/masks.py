"""Promises about masks: that they have the right effect, for the right sequence, at any score."""

from itertools import permutations, product

import torch
from torch import Tensor

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Masks, Subject
from limelight.check.instruments.mask_behaviour import (
    NO_EFFECT,
    NO_MASK,
    SMALL,
    MaskBehaviour,
    first,
    mask_behaviours,
    weights_under,
)
from limelight.check.instruments.op_trace import attentions
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding


def _own_masks(subject: Subject) -> list[MaskBehaviour]:
    """All masks except those over the memory of a decoder: cross-padding tests these."""
    found = mask_behaviours(subject)
    return [one for one in found if not (one.mask.over_memory and subject.kind.may_have_memory)]


def _has_effect(subject: Subject) -> Finding:
    found = _own_masks(subject)
    if not found:
        return inapplicable(NO_MASK)
    for one in found:
        if not one.mask.has_effect:
            b, t, s = first(one.hidden)
            return broken(
                one.describe(b, t),
                f"key {s} is hidden: changing it does not change the output",
                "the output changes: the mask has no effect, in any of the usual formats",
                place=one.place if one.is_lost_mask else one.call_place,
            )
    return _both_masks_count(subject, [one for one in found if one.is_right]) or KEPT


@torch.no_grad()
def _both_masks_count(subject: Subject, working: list[MaskBehaviour]) -> Finding | None:
    """A mask that hides nothing must not cancel another one."""
    if not (subject.kind.is_attention or subject.kind.is_encoder):
        return None
    model, case = subject.model(), subject.case()
    for one, other in permutations(working, 2):
        if one.mask.name == other.mask.name:
            continue
        masks = {one.mask.name: one.allowed}
        alone = subject.call(model, case, masks).out
        try:
            both = subject.call(model, case, masks | {other.mask.name: torch.ones_like(other.allowed)}).out
        except Exception:  # only one of the two is accepted at a time
            continue
        if not torch.allclose(alone, both, atol=1e-4, equal_nan=True):
            b, t, s = first(one.hidden)
            return broken(
                f"{one.describe(b, t)}; and {other.mask.name} ({other.mask.format}) hides nothing",
                f"key {s} is still hidden by {one.mask.name}",
                f"it is not hidden: with {other.mask.name}, {one.mask.name} is ignored",
                "a key is hidden if one of two masks hides it: combine both masks before the softmax",
                place=one.place,
            )
    return None


def _zero_weight(subject: Subject) -> Finding:
    found = [one for one in _own_masks(subject) if one.mask.has_effect]
    if not found:
        return inapplicable(NO_MASK if not subject.masks else NO_EFFECT)
    for one in found:
        if one.is_mixed_up or one.is_inverted:  # other promises
            continue
        if one.largest_hidden_weight > SMALL:
            assert one.weights is not None
            hidden_weights = one.weights * ~one.allowed.unsqueeze(1)
            b, h, t, s = (hidden_weights == hidden_weights.max()).nonzero()[0].tolist()
            return broken(
                one.describe(b, t),
                f"key {s} is hidden: its weight is 0",
                f"weights {numbers(one.weights[b, h, t])}",
                place=one.place,
            )
        if bool(one.lost.any()):
            b, t, s = first(one.lost)
            return broken(
                one.describe(b, t),
                f"key {s} is allowed: changing it changes the output",
                "the output does not change",
                place=one.place,
            )
    return KEPT


def _polarity(subject: Subject) -> Finding:
    working = [one for one in mask_behaviours(subject) if one.mask.has_effect]
    if not working:
        return inapplicable(NO_MASK if not subject.masks else NO_EFFECT)
    for one in working:
        if one.is_inverted:
            b, t, _ = first(one.leaks) if one.leaks.any() else first(one.lost)
            return broken(
                one.describe(b, t),
                "only the allowed keys change the output",
                "only the hidden keys change it",
                place=one.place,
            )
        mask_format = one.mask.format
        if mask_format and "key_padding" in one.mask.name.lower() and mask_format.style == "bool+":
            return broken(
                f"{one.mask.name} (B, S), True at the padding, as in torch",
                "True hides a key",
                "False hides a key",
                "the key_padding_mask of torch is True where a key is ignored",
                place=one.place,
            )
    boolean = [one.mask for one in working if one.mask.format and one.mask.format.style[-1] in "+-"]
    true_hides = {mask.name: bool(mask.format and mask.format.true_hides) for mask in boolean}
    if len(set(true_hides.values())) > 1:
        meanings = "; ".join(
            f"{name}: True = {'hidden' if hides else 'may attend'}" for name, hides in true_hides.items()
        )
        return broken(meanings, "True means the same in all masks of one object", "two different meanings")
    return KEPT


def _right_lengths(subject: Subject) -> Finding:
    found = [one for one in mask_behaviours(subject) if one.mask.has_effect]
    found = [one for one in found if one.mask.format and "B" in one.mask.format.layout]
    if not found:
        return inapplicable(
            NO_MASK if not subject.masks else "it has no working mask that differs between sequences"
        )
    for one in found:
        if one.is_mixed_up:
            b, t, s = first(one.leaks) if one.leaks.any() else first(one.lost)
            lengths = one.allowed[:, 0].sum(-1).tolist()
            should = "hidden from" if one.leaks.any() else "allowed for"
            return broken(
                f"sequences of lengths {lengths} (it is right for equal lengths). {one.describe(b, t)}",
                f"key {s} is {should} every head of sequence {b}",
                "it is treated as in another sequence of the batch",
                place=one.place,
            )
    return KEPT


def _no_leak(subject: Subject) -> Finding:
    found = _own_masks(subject)
    for one in found:
        if not one.mask.has_effect and _changes_returned_weights(subject, one):
            b, t, s = first(one.hidden)
            return broken(
                one.describe(b, t),
                f"key {s} has zero weight, and its value has no influence on the output",
                "the returned weights are masked, but not those that are multiplied with the values",
                place=one.place,
            )
    found = [one for one in found if one.mask.has_effect]
    if not found:
        return inapplicable(NO_MASK if not subject.masks else NO_EFFECT)
    for one in found:
        has_zero_weights = one.largest_hidden_weight <= SMALL
        if one.leaks.any() and has_zero_weights and not one.right_for_equal_lengths and not one.is_inverted:
            b, t, s = first(one.leaks)
            return broken(
                one.describe(b, t),
                f"changing key {s} and its value does not change the output",
                "the output changes",
                place=one.place,
            )
        sums = None if one.weights is None else one.weights.sum(-1)
        if sums is not None and not bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-3)):
            b, h, t = (sums - 1).abs().gt(1e-3).nonzero()[0].tolist()
            assert one.weights is not None
            return broken(
                one.describe(b, t),
                "the weights of the allowed keys sum to 1",
                f"weights {numbers(one.weights[b, h, t])}",
                "the mask is applied after the softmax, so that the weights sum to less than 1: mask the "
                "scores instead",
                place=one.place,
            )
    return KEPT


def _changes_returned_weights(subject: Subject, one: MaskBehaviour) -> bool:
    """Whether the mask changes the weights that are returned, though not the output."""
    model, case = subject.model(), subject.case()
    unmasked, masked = (
        _returned_weights(subject, model, case, masks) for masks in ({}, {one.mask.name: one.allowed})
    )
    return unmasked is not None and masked is not None and not torch.equal(unmasked, masked)


@torch.no_grad()
def _returned_weights(subject: Subject, model: object, case: Case, masks: Masks) -> Tensor | None:
    """The weights that are returned, or stored in the module."""
    returned = subject.call(model, case, masks).weights
    stored = [
        value
        for value in vars(model).values()
        if isinstance(value, Tensor) and value.shape[-1:] == (case.keys,)
    ]
    return returned if returned is not None else stored[0].clone() if stored else None


@torch.no_grad()
def _large_scores(subject: Subject) -> Finding:
    found = [one for one in mask_behaviours(subject) if one.mask.has_effect and one.is_right]
    if not found:
        return inapplicable(NO_MASK if not subject.masks else "its mask is wrong even at small scores")
    model = subject.model()
    usual = _usual_score(subject, model)
    for (size, conclude), one, seed in product(((1e3, broken), (4e4, warned)), found, range(4)):
        case = _with_large_scores(subject, subject.case(seed=seed), size, usual)
        weights, _ = weights_under(subject, model, case, one.mask, one.allowed)
        if weights is None or bool(weights.isnan().any()):
            continue
        hidden_weights = weights * ~one.allowed.unsqueeze(1)
        if float(hidden_weights.max()) > SMALL:
            b, h, t, _ = (hidden_weights == hidden_weights.max()).nonzero()[0].tolist()
            return conclude(
                f"scores of about {size:,.0f}; {one.describe(b, t)}",
                "hidden keys have zero weight, whatever their scores are",
                f"weights {numbers(weights[b, h, t])}",
                place=one.place,
            )
    return KEPT


def _usual_score(subject: Subject, model: object) -> float:
    """The largest median of the absolute scores of its attentions."""
    _, steps = subject.trace(model, subject.case())
    scores = [one.scores for one in attentions(steps) if one.scores is not None]
    return max((float(s[s.isfinite()].abs().median()) for s in scores), default=1.0)


def _with_large_scores(subject: Subject, case: Case, size: float, usual: float) -> Case:
    """The input, scaled so that its scores are about `size`."""
    if subject.kind.reads_scores:
        return Case(case.x.sign() * size * torch.linspace(0.9, 1.1, case.x.numel()).view_as(case.x))
    factor = (size / max(usual, 1e-6)) ** 0.5
    return case.map(lambda t: t * factor if t.is_floating_point() else t)


PROMISES = (
    Promise(
        "mask-has-effect",
        "a mask that is given changes the output",
        _has_effect,
        "forward takes the mask, but does not pass it on to the function that computes the weights",
    ),
    Promise(
        "masked-weight",
        "masked positions get zero weight, and no others",
        _zero_weight,
        "use scores.masked_fill(hidden, -inf) before the softmax; a mask that is broadcast along the wrong "
        "axis hides other positions",
    ),
    Promise(
        "mask-polarity",
        "masks hide the right positions, and True means the same in every mask",
        _polarity,
        "True means 'hidden' in one place and 'may attend' in another, or a `~` is missing",
    ),
    Promise(
        "right-lengths",
        "each sequence gets its own mask, in every head",
        _right_lengths,
        "if heads are folded into the batch as (b0 h0, b0 h1, b1 h0, …), lengths need repeat_interleave, "
        "not repeat",
    ),
    Promise(
        "masked-values-leak",
        "a masked position has no influence on the output",
        _no_leak,
        "values are used without the masked weights, heads are split or merged by a reshape without "
        "transpose, or one block of a stack does not get the mask",
    ),
    Promise(
        "large-scores",
        "a masked position gets zero weight even if scores are large",
        _large_scores,
        "-10000 is not small compared with large scores, and adding it does not replace the score: use "
        "masked_fill with -inf",
    ),
)
