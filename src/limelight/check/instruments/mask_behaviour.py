"""What each mask does: measured once, and used by every promise about masks."""

from contextlib import suppress
from dataclasses import dataclass, replace

from torch import Tensor

from limelight.check.harness.inputs import Case, MaskArgument
from limelight.check.harness.mask_formats import MaskFormat
from limelight.check.harness.subject import Subject
from limelight.check.instruments.mask_influence import (
    influence_under,
    influence_without,
    pattern_for,
    testable_pairs,
)
from limelight.check.instruments.op_trace import Attention, Step, attentions
from limelight.check.places import Place

SMALL = 1e-3  # a smaller weight counts as zero
NO_MASK = "it takes no mask"
NO_EFFECT = "its mask has no effect"


@dataclass(frozen=True)
class MaskBehaviour:
    """What one mask argument does to sequences of different lengths, and to sequences of one length."""

    mask: MaskArgument
    allowed: Tensor  # (B, T, S), the mask
    found: Tensor  # (B, T, S), whether a key influences an output under the mask
    unmasked: Tensor  # (B, T, S), the same if the mask hides nothing
    testable: Tensor  # (B, T, S), the pairs that show whether the mask works
    right_for_equal_lengths: bool
    weights: Tensor | None  # (B, H, T, S) under the mask
    attention: Attention | None  # the first attention under the mask

    @property
    def step(self) -> Step | None:
        """The operation that masks the scores, or else their softmax."""
        return None if self.attention is None else self.attention.masking or self.attention.softmax

    @property
    def place(self) -> Place | None:
        """The line of the checked code that masks the scores."""
        return self.step.place if self.step else None

    @property
    def is_lost_mask(self) -> bool:
        """Whether a mask is applied to the scores; if it has no effect, its result is not used."""
        return self.step is not None and self.step.name.rstrip("_") in ("masked_fill", "where")

    @property
    def call_place(self) -> Place | None:
        """The line of the checked object itself through which the scores are masked."""
        return self.step.call_place if self.step else None

    @property
    def is_right(self) -> bool:
        """Whether exactly the allowed keys have an influence."""
        return bool((self.found == (self.allowed & self.unmasked))[self.testable].all())

    @property
    def leaks(self) -> Tensor:
        """(B, T, S): hidden keys that have an influence"""
        return self.found & ~self.allowed & self.testable

    @property
    def lost(self) -> Tensor:
        """(B, T, S): allowed keys that have no influence"""
        return ~self.found & self.allowed & self.unmasked & self.testable

    @property
    def hidden(self) -> Tensor:
        """(B, T, S): hidden keys, as far as they can be tested"""
        return ~self.allowed & self.testable

    @property
    def is_mixed_up(self) -> bool:
        """Whether it is right for sequences of one length only: each sequence gets the mask of another."""
        return not self.is_right and self.right_for_equal_lengths

    @property
    def is_inverted(self) -> bool:
        """Whether mostly hidden keys have an influence and allowed ones have none; for rows with both."""
        both = self.testable & (self.allowed.any(-1, keepdim=True) & ~self.allowed.all(-1, keepdim=True))
        wrong = (self.found != self.allowed)[both].float()
        return bool(self.leaks.any() and self.lost.any() and wrong.mean() > 0.6)

    @property
    def largest_hidden_weight(self) -> float:
        """The largest attention weight on a hidden key."""
        if self.weights is None:
            return 0.0
        hidden = ~self.allowed.unsqueeze(1).expand_as(self.weights)
        return float(self.weights[hidden].max()) if hidden.any() else 0.0

    def describe(self, b: int, t: int) -> str:
        """The mask as the query t of sequence b gets it."""
        row = self.allowed[b, t].tolist()
        keys = ", ".join("allowed" if one else "hidden" for one in row)
        return f"{self.mask.name} ({self.mask.format}); sequence {b}, query {t}, keys: {keys}"


def first(pairs: Tensor) -> tuple[int, int, int]:
    """The sequence, query and key of the first True of (B, T, S)."""
    b, t, s = pairs.nonzero()[0].tolist()
    return b, t, s


def mask_behaviours(subject: Subject) -> list[MaskBehaviour]:
    """What each mask of the subject does; measured once per subject."""
    key = "_mask_behaviours"
    if key not in subject.__dict__:
        subject.__dict__[key] = [one for mask in subject.masks for one in _behaviours(subject, mask)]
    return list(subject.__dict__[key])


def _behaviours(subject: Subject, mask: MaskArgument) -> list[MaskBehaviour]:
    """Lengths may be one per sequence or one per query: both must work if both are accepted."""
    found = [_measure(subject, mask)]
    case = subject.case()
    other = {"B": MaskFormat("lengths", "BT"), "BT": MaskFormat("lengths", "B")}.get(
        mask.format.layout if mask.format else ""
    )
    distinct_sizes = subject.kind.reads_scores or case.keys != case.x.shape[1]
    if mask.format is None or mask.format.style != "lengths" or mask.role == "state":
        return found
    if other is None or not distinct_sizes:
        return found
    usual, mask.format = mask.format, other
    try:
        with suppress(Exception):  # lengths of that shape are not accepted
            found.append(_measure(subject, replace(mask)))
    finally:
        mask.format = usual
    return found


def _measure(subject: Subject, mask: MaskArgument) -> MaskBehaviour:
    model, case = subject.model(), subject.case()
    allowed = pattern_for(subject, mask, case)
    testable = testable_pairs(subject, mask, case, allowed)
    unmasked = influence_without(subject, model, case, mask)
    found = influence_under(subject, model, case, mask, allowed)
    equal = pattern_for(subject, mask, case, length=max(1, allowed.shape[-1] - 1))
    found_equal = influence_under(subject, model, case, mask, equal)
    right = bool((found_equal == (equal & unmasked))[testable_pairs(subject, mask, case, equal)].all())
    weights, attention = weights_under(subject, model, case, mask, allowed)
    return MaskBehaviour(mask, allowed, found, unmasked, testable, right, weights, attention)


def weights_under(
    subject: Subject, model: object, case: Case, mask: MaskArgument, allowed: Tensor
) -> tuple[Tensor | None, Attention | None]:
    """-> (B, H, T, S): the attention weights under a mask, or None if they were not found; their attention"""
    result, steps = subject.trace(model, case, {mask.name: allowed})
    found = attentions(steps)
    if subject.kind.reads_scores:
        return result.out.unsqueeze(1), found[0] if found else None
    fitting = [one for one in found if one.weights.shape[1:] == allowed.shape[1:]]
    fitting = [one for one in fitting if len(one.weights) % len(case.x) == 0]
    if not fitting:
        return None, found[0] if found else None
    # If source and target have one length, self-attention and cross-attention fit, and one is masked.
    is_unclear = subject.kind.may_have_memory and case.source is not None and case.keys == case.x.shape[1]
    hidden = ~allowed.unsqueeze(1)
    choices = []
    for attention in fitting if is_unclear else fitting[:1]:
        rows = attention.weights
        # The axis of the heads may be before or after that of the batch.
        choices.append((rows.unflatten(0, (len(case.x), -1)), attention))
        choices.append((rows.unflatten(0, (-1, len(case.x))).transpose(0, 1), attention))
    return min(choices, key=lambda choice: float((choice[0] * hidden).sum()))
