"""What masks really do: tried once, and looked at by every promise about them."""

from contextlib import suppress
from dataclasses import dataclass, replace

from torch import Tensor

from limelight.check.harness.inputs import Case, MaskArgument
from limelight.check.harness.mask_formats import Way
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import compared, pattern, seen_free, seen_through
from limelight.check.instruments.op_trace import attentions

SMALL = 1e-3  # a weight that is as good as none


@dataclass(frozen=True)
class Fact:
    """What one mask argument does to sequences of different lengths, and to sequences of one length."""

    mask: MaskArgument
    allowed: Tensor
    seen: Tensor
    told: Tensor
    free: Tensor  # who sees whom without the mask
    even_is_right: bool
    weights: Tensor | None  # (B, H, T, S) under the mask

    @property
    def right(self) -> bool:
        return bool((self.seen == (self.allowed & self.free))[self.told].all())

    @property
    def leaks(self) -> Tensor:
        """(B, T, S), hidden and yet seen"""
        return self.seen & ~self.allowed & self.told

    @property
    def lost(self) -> Tensor:
        """(B, T, S), allowed and yet not seen"""
        return ~self.seen & self.allowed & self.free & self.told

    @property
    def heaviest(self) -> float:
        """The largest weight on what is hidden."""
        if self.weights is None:
            return 0.0
        hidden = ~self.allowed.unsqueeze(1).expand_as(self.weights)
        return float(self.weights[hidden].max()) if hidden.any() else 0.0


def facts(subject: Subject) -> list[Fact]:
    if "facts" not in subject.__dict__:
        subject.__dict__["facts"] = [fact for mask in subject.masks for fact in _facts(subject, mask)]
    return list(subject.__dict__["facts"])


def _facts(subject: Subject, mask: MaskArgument) -> list[Fact]:
    """Lengths can be one a sequence, or one a query: whatever is taken must be right."""
    found = [_fact(subject, mask)]
    case = subject.case()
    other = {"B": Way("lengths", "BT"), "BT": Way("lengths", "B")}.get(mask.way.layout if mask.way else "")
    apart = subject.kind == "masked-softmax" or case.keys != case.x.shape[1]
    if mask.way is None or mask.way.style != "lengths" or mask.role == "state" or other is None or not apart:
        return found
    said, mask.way = mask.way, other
    try:
        with suppress(Exception):  # whatever their code raises: lengths of that shape are none
            found.append(_fact(subject, replace(mask)))
    finally:
        mask.way = said
    return found


def _fact(subject: Subject, mask: MaskArgument) -> Fact:
    model, case = subject.model(), subject.case()
    allowed = pattern(subject, mask, case)
    told = compared(subject, mask, case, allowed)
    free = seen_free(subject, model, case, mask)
    seen = seen_through(subject, model, case, mask, allowed)
    even = pattern(subject, mask, case, even=max(1, allowed.shape[-1] - 1))
    seen_evenly = seen_through(subject, model, case, mask, even)
    right = bool((seen_evenly == (even & free))[compared(subject, mask, case, even)].all())
    return Fact(mask, allowed, seen, told, free, right, weights_under(subject, model, case, mask, allowed))


def weights_under(
    subject: Subject, model: object, case: Case, mask: MaskArgument, allowed: Tensor
) -> Tensor | None:
    if subject.kind == "masked-softmax":
        return subject.call(model, case, {mask.name: allowed}).out.unsqueeze(1)
    _, steps = subject.trace(model, case, {mask.name: allowed})
    fitting = [one for one in attentions(steps) if one.weights.shape[1:] == allowed.shape[1:]]
    fitting = [one for one in fitting if len(one.weights) % len(case.x) == 0]
    if not fitting:
        return None
    # Heads may be folded into the batch before or after it.
    rows = fitting[0].weights
    one, other = rows.unflatten(0, (len(case.x), -1)), rows.unflatten(0, (-1, len(case.x))).transpose(0, 1)
    hidden = ~allowed.unsqueeze(1)
    return min(one, other, key=lambda weights: float((weights * hidden).sum()))
