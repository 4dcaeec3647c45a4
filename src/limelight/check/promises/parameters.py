"""Promises about parameters: they have values, and each head has its own projections."""

import linecache
import re
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.subject import Subject
from limelight.check.instruments.initialisation import uninitialised_parameters
from limelight.check.instruments.parts import place_of_definition
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable
from limelight.check.report import Finding

INITIALISES = re.compile(r"\binit\.\w+_\(|\.apply\(")


def _initialised(subject: Subject) -> Finding:
    if not subject.is_constructed:
        return inapplicable("it is not constructed")

    def construct() -> Any:
        return subject.constructor.instance(
            subject.target, subject.kind, subject.plan.sizes, number=subject.construction
        )

    found = uninitialised_parameters(construct)
    if not found:
        return KEPT
    place = place_of_definition(subject.model(), found[0])
    if place and any(INITIALISES.search(line) for line in linecache.getlines(place[0])):
        return inapplicable("its parameters are initialised by another function of the file")
    return broken(
        f"{found[0]} after the constructor",
        "every parameter has values",
        "its memory was allocated, but not filled: it can hold any numbers, even NaN",
        place=place,
    )


@torch.no_grad()
def _own_projections(subject: Subject) -> Finding:
    """A small matrix that is applied to all heads at once is shared by them."""
    model, case, sizes = subject.model(), subject.case(), subject.sizes
    if not isinstance(model, nn.Module) or sizes.heads < 2 or not case.x.is_floating_point():
        return inapplicable("it has no heads")
    width = sizes.head_width
    small = {name: p for name, p in model.named_parameters() if p.shape == (width, width)}
    if not small:
        return KEPT
    _, steps = subject.trace(model, case)
    for step in steps:
        tensors = [value for value in step.inputs if isinstance(value, Tensor)]
        if step.name not in ("mm", "addmm", "bmm") or len(tensors) < 2:
            continue
        given, matrix = tensors[-2:]
        shared = [
            name for name, p in small.items() if matrix.shape[-2:] == p.shape and torch.equal(matrix, p.T)
        ]
        if shared and given.numel() in (
            len(case.x) * count * sizes.width for count in (case.keys, case.x.shape[1])
        ):
            return broken(
                f"{sizes.heads} heads of width {width}",
                f"each head has its own projection of all {sizes.width} features: a matrix of "
                f"{sizes.width} × {sizes.width} for all heads together",
                f"one matrix of {width} × {width}, {shared[0]}, is used for every head",
                place=place_of_definition(model, shared[0]),
            )
    return KEPT


PROMISES = (
    Promise(
        "initialised",
        "every parameter is initialised",
        _initialised,
        "torch.empty(n) and torch.Tensor(n) only allocate memory: use torch.randn, or a function of "
        "torch.nn.init after them",
    ),
    Promise(
        "head-projections",
        "each head has its own projections",
        _own_projections,
        "project first, with nn.Linear(width, width), and split into heads afterwards",
    ),
)
