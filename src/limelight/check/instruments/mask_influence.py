"""The influence of each key on each output under a mask, and the patterns that masks are tested with."""

import torch
from torch import Tensor

from limelight.check.harness.inputs import Case, MaskArgument
from limelight.check.harness.mask_formats import padding_pattern
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import influence


def masks_itself(subject: Subject, mask: MaskArgument, case: Case) -> bool:
    """Whether the mask applies to self-attention: then a position always influences its own output."""
    return case.source is None or (subject.kind.may_have_memory and not mask.over_memory)


def influence_under(
    subject: Subject, model: object, case: Case, mask: MaskArgument, allowed: Tensor
) -> Tensor:
    """-> (B, T, S): which keys influence which outputs under this mask"""
    of_itself = masks_itself(subject, mask, case) and case.source is not None
    return influence(subject, model, case, {mask.name: allowed}, of_itself=of_itself)


def influence_without(subject: Subject, model: object, case: Case, mask: MaskArgument) -> Tensor:
    """-> (B, T, S): which keys influence which outputs if this mask hides nothing"""
    count = count_keys(subject, mask, case)
    everything = torch.ones(len(case.x), case.x.shape[1], count, dtype=torch.bool)
    found = influence_under(subject, model, case, mask, everything)
    # If there is almost no influence, the polarity of the mask is the opposite one.
    testable = testable_pairs(subject, mask, case, everything)
    return found if found[testable].float().mean() > 0.3 else everything


def testable_pairs(subject: Subject, mask: MaskArgument, case: Case, allowed: Tensor) -> Tensor:
    """-> (B, T, S): the pairs that show whether a mask works; not a position and itself"""
    queries, keys = allowed.shape[1:]
    if subject.kind.reads_scores:
        return (~allowed | (allowed.sum(-1, keepdim=True) > 1)).expand_as(allowed)
    if masks_itself(subject, mask, case):
        # The output at a padding position does not matter.
        real_BT1 = allowed.any(1)[:, :queries].unsqueeze(2)
        return ~torch.eye(queries, keys, dtype=torch.bool) & real_BT1
    return torch.ones_like(allowed)


def count_keys(subject: Subject, mask: MaskArgument, case: Case) -> int:
    """The number of keys of a mask."""
    if subject.kind.reads_scores:
        return case.x.shape[2]
    return case.x.shape[1] if masks_itself(subject, mask, case) else case.keys


def pattern_for(subject: Subject, mask: MaskArgument, case: Case, *, length: int | None = None) -> Tensor:
    """-> (B, T, S): padding of different lengths, or of one length if the mask has no batch axis"""
    batch, queries, keys = len(case.x), case.x.shape[1], count_keys(subject, mask, case)
    if mask.format is not None and not mask.format.can_express(padding_pattern(batch, queries, keys)):
        length = max(1, keys - 1)
    return padding_pattern(batch, queries, keys, length=length)
