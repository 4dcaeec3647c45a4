"""Who really looks at whom: change one position, and see which outputs change."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from limelight.check.harness.inputs import Case, MaskArgument
from limelight.check.harness.mask_formats import Way, padding, past, ways_for
from limelight.check.harness.subject import Subject

NOTHING = 1e-5  # of the output's size: what rounding may do


def changed(before: Tensor, after: Tensor) -> Tensor:
    """(B, T, ...), (B, T, ...) -> (B, T), where the two differ by more than rounding"""
    before, after = before.detach().flatten(2), after.detach().flatten(2)
    size = before[before.isfinite()].abs().max() if before.isfinite().any() else torch.tensor(1.0)
    difference = (after - before).abs()
    return (difference > NOTHING * max(float(size), 1e-3)).any(-1) | (before.isnan() != after.isnan()).any(-1)


def disturbed(subject: Subject, case: Case, place: int, seed: int = 5) -> Case:
    """The same with another position at this place of what is looked at."""
    torch.manual_seed(seed)

    def other(tensor: Tensor, axis: int = 1) -> Tensor:
        tensor = tensor.clone()
        part = tensor.select(axis, place)
        if tensor.is_floating_point():
            part += 3 * torch.randn(part.shape)
        else:
            part.copy_(1 + (part % (subject.sizes.vocabulary - 1)))
        return tensor

    if subject.kind == "masked-softmax":
        return replace(case, x=other(case.x, 2))
    if case.source is None:
        return replace(case, x=other(case.x))
    values = None if case.values is None else other(case.values)
    return replace(case, source=other(case.source), values=values)


@torch.no_grad()
def influence(
    subject: Subject,
    model: object,
    case: Case,
    hide: dict[str, Tensor] | None = None,
    *,
    of_itself: bool = False,
    values_only: bool = False,
) -> Tensor:
    """-> (B, T, S), whether position s of what is looked at changes output t

    With `of_itself`, of the sequence itself, where there is also a source. With `values_only`, keys stay.
    """
    looked_at = replace(case, source=None, values=None) if of_itself else case
    before = subject.call(model, case, hide).out
    columns = []
    count = case.x.shape[2] if subject.kind == "masked-softmax" else looked_at.keys
    for place in range(count):
        other = disturbed(subject, looked_at, place)
        if of_itself:
            other = replace(case, x=other.x)
        if values_only:
            values = other.source if other.values is None else other.values
            other = replace(case, values=values)
        after = subject.call(model, other, hide).out
        if subject.kind == "masked-softmax":  # its own column may change; do the others?
            keep = [i for i in range(count) if i != place]
            columns.append(changed(before[..., keep], after[..., keep]))
        else:
            columns.append(changed(before, after))
    return torch.stack(columns, -1)


def looks_at_itself(subject: Subject, mask: MaskArgument, case: Case) -> bool:
    """Whether the mask lies over the sequence itself: then a position always changes its own output."""
    return case.source is None or (
        subject.kind not in ("masked-softmax",) and _two(subject) and not mask.of_memory
    )


def _two(subject: Subject) -> bool:
    return subject.kind in ("decoder-block", "decoder", "sequence-model")


def seen_through(subject: Subject, model: object, case: Case, mask: MaskArgument, allowed: Tensor) -> Tensor:
    """-> (B, T, S), who changes whom under this mask"""
    own = looks_at_itself(subject, mask, case) and case.source is not None
    return influence(subject, model, case, {mask.name: allowed}, of_itself=own)


def compared(subject: Subject, mask: MaskArgument, case: Case, allowed: Tensor) -> Tensor:
    """-> (B, T, S), the pairs of which a mask's work can be told: not a position and itself"""
    queries, keys = allowed.shape[1:]
    if subject.kind == "masked-softmax":
        return (~allowed | (allowed.sum(-1, keepdim=True) > 1)).expand_as(allowed)
    if looks_at_itself(subject, mask, case):
        # What comes out at a position that is padding itself does not matter.
        real_BT1 = allowed.any(1)[:, :queries].unsqueeze(2)
        return ~torch.eye(queries, keys, dtype=torch.bool) & real_BT1
    return torch.ones_like(allowed)


def _keys(subject: Subject, mask: MaskArgument, case: Case) -> int:
    if subject.kind == "masked-softmax":
        return case.x.shape[2]
    return case.x.shape[1] if looks_at_itself(subject, mask, case) else case.keys


def pattern(subject: Subject, mask: MaskArgument, case: Case, *, even: int | None = None) -> Tensor:
    """-> (B, T, S): hidden padding; where it cannot tell sequences apart, the same for all"""
    batch, queries, keys = len(case.x), case.x.shape[1], _keys(subject, mask, case)
    if mask.way is not None and not mask.way.can_say(padding(batch, queries, keys)):
        even = max(1, keys - 1)
    return padding(batch, queries, keys, even=even)


@dataclass(frozen=True)
class _Trial:
    """How well a mask was obeyed when it was said in one way."""

    way: Way
    score: float  # the share of pairs that are as they should be
    even: float  # the same, where all sequences have one length
    mixed: float  # the same, where only values are changed, and keys stay
    effect: bool  # whether the output changes at all

    @property
    def rank(self) -> tuple[bool, float, bool]:
        return self.score > 0.999, self.score, self.effect


def find_ways(subject: Subject) -> None:
    """For each mask argument, the way of saying a mask that comes nearest to what a mask should do."""
    model, case = subject.model(), subject.case()
    for mask in subject.masks:
        if mask.role == "state":
            mask.effect = _trial(
                subject, model, case, mask, Way("lengths", "B"), pattern(subject, mask, case)
            ).effect
            continue
        best = _best_way(subject, model, case, mask)
        mask.way, mask.effect = (best.way, best.effect) if best else (None, False)
        if best and (best.effect or not mask.guessed):
            subject.notes.append(f"{' and '.join((mask.name, *mask.along))}: {mask.way}")
    subject.masks = [mask for mask in subject.masks if mask.way and (mask.effect or not mask.guessed)]


def _best_way(subject: Subject, model: object, case: Case, mask: MaskArgument) -> _Trial | None:
    keys, queries = _keys(subject, mask, case), case.x.shape[1]
    ways = ways_for(mask.role, mask.name)
    found: list[_Trial] = []
    size = len(case.x), queries, keys
    for allowed in (padding(*size), padding(*size, even=max(1, keys - 1)), past(*size)):
        trials = [_trial(subject, model, case, mask, way, allowed) for way in ways if way.can_say(allowed)]
        found += [trial for trial in trials if trial.score >= 0]
        right = [trial for trial in found if trial.score > 0.999 and trial.effect]
        # Right only where all sequences are alike: a mask for each sequence, used wrongly.
        alike = [trial for trial in found if "B" in trial.way.layout and trial.even > 0.999 and trial.effect]
        # Right only for values: a mask that comes after the softmax.
        alike += [trial for trial in found if trial.mixed > 0.999 and trial.effect]
        wrong = [trial for trial in alike if trial.score < 0.999]
        if right or wrong:
            return (wrong or right)[0]
    return max(found, key=lambda trial: trial.rank, default=None)


@torch.no_grad()
def _trial(
    subject: Subject,
    model: object,
    case: Case,
    mask: MaskArgument,
    way: Way,
    allowed: Tensor,
) -> _Trial:
    before, mask.way = mask.way, way
    even = padding(*allowed.shape, even=max(1, allowed.shape[-1] - 1))
    try:
        free = seen_free(subject, model, case, mask)
        shares = [
            _share(subject, model, case, mask, asked, free) for asked in (allowed, even) if way.can_say(asked)
        ]
        given = subject.call(model, case, {mask.name: allowed}).out
        nothing = subject.call(model, case, {mask.name: torch.ones_like(allowed)}).out
        effect = not torch.allclose(given, nothing, atol=1e-6, equal_nan=True)
    except Exception:  # their code refuses this way
        return _Trial(way, -1.0, -1.0, -1.0, False)
    finally:
        mask.way = before
    return _Trial(way, shares[0][0], shares[-1][0], shares[0][1], effect)


def seen_free(subject: Subject, model: object, case: Case, mask: MaskArgument) -> Tensor:
    """Who changes whom when nothing is hidden by this mask."""
    everything = torch.ones(len(case.x), case.x.shape[1], _keys(subject, mask, case), dtype=torch.bool)
    seen = seen_through(subject, model, case, mask, everything)
    # Where nearly nothing is seen, "everything" was understood as its opposite.
    told = compared(subject, mask, case, everything)
    return seen if seen[told].float().mean() > 0.3 else everything


def _share(
    subject: Subject, model: object, case: Case, mask: MaskArgument, allowed: Tensor, free: Tensor
) -> tuple[float, float]:
    """How many of the pairs are seen that should be, and no others; and the same of values alone."""
    seen = seen_through(subject, model, case, mask, allowed)
    if seen.shape != allowed.shape:
        return -1.0, -1.0
    told = compared(subject, mask, case, allowed)
    share = float((seen == (allowed & free))[told].float().mean())
    if case.source is not None and "value" in subject.roles.values() and not subject.form.heads_axis:
        mixed = influence(subject, model, case, {mask.name: allowed}, values_only=True)
        of_values = float((mixed == allowed)[told].float().mean())
        return (share + of_values) / 2, of_values
    return share, -1.0
