"""Finds the format of each mask argument: the one under which the mask works best."""

from dataclasses import dataclass

import torch
from torch import Tensor

from limelight.check.harness.crash import Attempt, attempt
from limelight.check.harness.inputs import Case, MaskArgument
from limelight.check.harness.mask_formats import MaskFormat, causal_pattern, formats_for, padding_pattern
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import influence
from limelight.check.instruments.mask_influence import (
    count_keys,
    influence_under,
    influence_without,
    pattern_for,
    testable_pairs,
)

ALL = 0.999  # a larger share of right pairs counts as all
NOT_ACCEPTED = -1.0


@dataclass(frozen=True)
class _Trial:
    """How well a mask works in one format: the share of pairs with the right influence."""

    format: MaskFormat
    score: float  # with sequences of different lengths
    equal_lengths: float  # with sequences of one length
    values: float  # if only the values are changed, not the keys
    has_effect: bool  # whether the output changes at all
    is_informative: bool = False  # whether the mask hides what is visible without it

    @property
    def rank(self) -> tuple[bool, float, bool]:
        return self.score > ALL, self.score, self.has_effect


def find_mask_formats(subject: Subject) -> None:
    """Set the format of each mask argument, and whether the mask has an effect."""
    model, case = subject.model(), subject.case()
    # An argument such as cache_len=0 is a number, no mask.
    are_numbers = {p.name for p in subject.parameters if type(p.default) is int}
    subject.masks = [mask for mask in subject.masks if mask.name not in are_numbers]
    for mask in subject.masks:
        if mask.role == "state":
            pattern = pattern_for(subject, mask, case)
            trial = _try_format(subject, model, case, mask, MaskFormat("lengths", "B"), pattern)
            mask.has_effect = trial.has_effect
            continue
        best = _best_trial(subject, model, case, mask)
        if best is None and not mask.guessed:
            subject.crash = subject.crash or _crash(subject, model, case, mask)
        mask.format, mask.has_effect = (best.format, best.has_effect) if best else (None, False)
        if best and (best.has_effect or not mask.guessed):
            subject.notes.append(f"{' and '.join((mask.name, *mask.duplicates))}: {mask.format}")
    subject.masks = [mask for mask in subject.masks if mask.format and (mask.has_effect or not mask.guessed)]


@torch.no_grad()
def _crash(subject: Subject, model: object, case: Case, mask: MaskArgument) -> Attempt | None:
    """The error of `if mask:`, which no mask of more than one element passes."""
    before, mask.format = mask.format, MaskFormat("bool+", "BTS")
    try:
        subject.call(model, case, {mask.name: pattern_for(subject, mask, case)})
    except Exception as error:  # the checked code may raise anything
        found = attempt(error, f"called with the mask {mask.name}")
        return found if "Boolean value of Tensor" in str(error) and found.line else None
    finally:
        mask.format = before
    return None


def _best_trial(subject: Subject, model: object, case: Case, mask: MaskArgument) -> _Trial | None:
    keys, queries = count_keys(subject, mask, case), case.x.shape[1]
    formats = formats_for(mask.role, mask.name)
    found: list[_Trial] = []
    size = len(case.x), queries, keys
    patterns = (
        padding_pattern(*size),
        padding_pattern(*size, length=max(1, keys - 1)),
        causal_pattern(*size),
        ~padding_pattern(*size, length=1),  # hides the first key: of use if the attention is causal itself
    )
    for pattern in patterns:
        trials = [
            _try_format(subject, model, case, mask, one, pattern)
            for one in formats
            if one.can_express(pattern)
        ]
        found += [trial for trial in trials if trial.score >= 0]
        effective = [trial for trial in found if trial.has_effect and trial.is_informative]
        right = [trial for trial in effective if trial.score > ALL]
        # Right only for sequences of one length: the mask is mixed up between sequences.
        nearly = [trial for trial in effective if "B" in trial.format.layout and trial.equal_lengths > ALL]
        # Right only for the values: the mask is applied after the softmax.
        nearly += [trial for trial in effective if trial.values > ALL]
        wrong = [trial for trial in nearly if trial.score < ALL]
        if right or wrong:
            return (wrong or right)[0]
    return max(found, key=lambda trial: trial.rank, default=None)


@torch.no_grad()
def _try_format(
    subject: Subject, model: object, case: Case, mask: MaskArgument, mask_format: MaskFormat, allowed: Tensor
) -> _Trial:
    before, mask.format = mask.format, mask_format
    equal = padding_pattern(*allowed.shape, length=max(1, allowed.shape[-1] - 1))
    try:
        unmasked = influence_without(subject, model, case, mask)
        shares = [
            _shares(subject, model, case, mask, pattern, unmasked)
            for pattern in (allowed, equal)
            if mask_format.can_express(pattern)
        ]
        is_informative, equal_is_informative = (
            bool((unmasked & ~pattern)[testable_pairs(subject, mask, case, pattern)].any())
            for pattern in (allowed, equal)
        )
        masked = subject.call(model, case, {mask.name: allowed}).out
        everything = subject.call(model, case, {mask.name: torch.ones_like(allowed)}).out
        has_effect = not torch.allclose(masked, everything, atol=1e-6, equal_nan=True)
    except Exception:  # the checked code does not accept this format
        return _Trial(mask_format, NOT_ACCEPTED, NOT_ACCEPTED, NOT_ACCEPTED, False)
    finally:
        mask.format = before
    equal_lengths = shares[-1][0] if equal_is_informative else NOT_ACCEPTED
    return _Trial(mask_format, shares[0][0], equal_lengths, shares[0][1], has_effect, is_informative)


def _shares(
    subject: Subject, model: object, case: Case, mask: MaskArgument, allowed: Tensor, unmasked: Tensor
) -> tuple[float, float]:
    """The share of pairs with the right influence, and the same if only values are changed."""
    found = influence_under(subject, model, case, mask, allowed)
    if found.shape != allowed.shape:
        return NOT_ACCEPTED, NOT_ACCEPTED
    testable = testable_pairs(subject, mask, case, allowed)
    share = float((found == (allowed & unmasked))[testable].float().mean())
    if case.source is not None and "value" in subject.roles.values() and not subject.form.heads_axis:
        by_values = influence(subject, model, case, {mask.name: allowed}, values_only=True)
        of_values = float((by_values == allowed)[testable].float().mean())
        return (share + of_values) / 2, of_values
    return share, NOT_ACCEPTED
