"""The promise of rotary encodings (Su et al. 2021): a rotation by an angle that depends on the position."""

import torch

from limelight.check.harness.subject import Subject
from limelight.check.instruments.rotation import is_rotary, scores_by_distance
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers
from limelight.check.report import Finding

LENGTH = 5  # the number of positions that are compared


@torch.no_grad()
def _rotation(subject: Subject) -> Finding:
    if not is_rotary(subject):
        return inapplicable("it is no rotary encoding")
    case = subject.case(queries=LENGTH)
    out = subject.call(subject.model(), case).out
    if out.shape != case.x.shape:
        return inapplicable("it returns tables, and another function rotates")
    norms = case.x.norm(dim=-1), out.norm(dim=-1)
    if not torch.allclose(*norms, atol=1e-4):
        return broken(
            f"vectors of the norms {numbers(norms[0][0])} at {LENGTH} positions",
            "a rotation keeps norms",
            f"the norms {numbers(norms[1][0])}",
        )
    scores = scores_by_distance(subject, LENGTH)
    if not torch.allclose(scores[1:, 1:], scores[:-1, :-1], atol=1e-3):
        return broken(
            f"the product of a query at position 1 and a key at position 0: {numbers(scores[1, 0])}",
            "the same at positions 2 and 1, which have the same distance",
            numbers(scores[2, 1]),
        )
    return KEPT


PROMISES = (
    Promise(
        "rotation",
        "a rotary encoding keeps norms, and products depend on the distance of two positions only",
        _rotation,
        "each pair (a, b) becomes (a·cos - b·sin, b·cos + a·sin), with one angle per pair; angles and pairs "
        "must have the same order, either halves or neighbours",
    ),
)
