"""Influence: change one position of the input, and compare the outputs."""

from dataclasses import replace

import torch
from torch import Tensor

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Masks, Subject

TOLERANCE = 1e-5  # relative to the largest output: smaller differences are rounding


def differs(before: Tensor, after: Tensor) -> Tensor:
    """(B, T, ...), (B, T, ...) -> (B, T): where the two differ by more than rounding"""
    before, after = before.detach().flatten(2), after.detach().flatten(2)
    largest = before[before.isfinite()].abs().max() if before.isfinite().any() else torch.tensor(1.0)
    difference = (after - before).abs()
    is_large = difference > TOLERANCE * max(float(largest), 1e-3)
    return is_large.any(-1) | (before.isnan() != after.isnan()).any(-1)


def _changed(subject: Subject, case: Case, position: int, seed: int = 5) -> Case:
    """The same input with another key and value at one position."""
    torch.default_generator.manual_seed(seed)

    def changed(tensor: Tensor, axis: int = 1) -> Tensor:
        tensor = tensor.clone()
        part = tensor.select(axis, position)
        if tensor.is_floating_point():
            part += 3 * torch.randn(part.shape)
        else:
            part.copy_(1 + (part % (subject.sizes.vocabulary - 1)))
        return tensor

    if subject.kind.reads_scores:
        return replace(case, x=changed(case.x, 2))
    if case.source is None:
        return replace(case, x=changed(case.x))
    values = None if case.values is None else changed(case.values)
    return replace(case, source=changed(case.source), values=values)


@torch.no_grad()
def influence(
    subject: Subject,
    model: object,
    case: Case,
    masks: Masks | None = None,
    *,
    of_itself: bool = False,
    values_only: bool = False,
) -> Tensor:
    """-> (B, T, S): whether a change of key s changes output t

    With `of_itself`, the sequence itself is changed, not the source. With `values_only`, the keys stay.
    """
    attended = replace(case, source=None, values=None) if of_itself else case
    before = subject.call(model, case, masks).out
    columns = []
    count = case.x.shape[2] if subject.kind.reads_scores else attended.keys
    for position in range(count):
        other = _changed(subject, attended, position)
        if of_itself:
            other = replace(case, x=other.x)
        if values_only:
            values = other.source if other.values is None else other.values
            other = replace(case, values=values)
        after = subject.call(model, other, masks).out
        if subject.kind.reads_scores:  # the changed column itself is left out
            kept = [i for i in range(count) if i != position]
            columns.append(differs(before[..., kept], after[..., kept]))
        else:
            columns.append(differs(before, after))
    return torch.stack(columns, -1)
