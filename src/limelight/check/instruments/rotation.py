"""Rotary encodings: pairs of features are rotated by an angle that grows with the position."""

import re

import torch
from torch import Tensor

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject

ROTARY_NAME = re.compile(r"rope\b|rope[^a-z]|rotar|rotat", re.IGNORECASE)


@torch.no_grad()
def is_rotary(subject: Subject) -> bool:
    """Whether it is a rotary encoding: by its name, or because it changes its input and keeps its norms."""
    if subject.returns_table or subject.form.inputs != "vectors":
        return False
    model = subject.model()
    if any(p.requires_grad for p in getattr(model, "parameters", list)()):  # a rotation has no weights
        return False
    if ROTARY_NAME.search(subject.name):
        return True
    case = subject.case()
    out = subject.call(model, case).out
    if out.shape != case.x.shape or torch.allclose(out, case.x, atol=1e-5):
        return False
    zero = subject.call(model, Case(torch.zeros_like(case.x))).out
    return not bool(zero.any()) and bool(torch.allclose(out.norm(dim=-1), case.x.norm(dim=-1), atol=1e-4))


@torch.no_grad()
def scores_by_distance(subject: Subject, length: int) -> Tensor:
    """-> (T, T): the product of one vector at position t and another one at position s, after the rotation"""
    model = subject.model()
    torch.default_generator.manual_seed(1)
    query, key = (torch.randn(subject.sizes.width).expand(1, length, -1) for _ in range(2))
    return subject.call(model, Case(query)).out[0] @ subject.call(model, Case(key)).out[0].mT
