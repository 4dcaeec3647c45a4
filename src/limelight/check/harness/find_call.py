"""Finds a way of calling the object under test: the form of its tensors, and the axis of the positions."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from limelight.check.harness.construct import CannotConstruct, Constructor
from limelight.check.harness.inputs import CannotCall, Case, Form, Result
from limelight.check.harness.mask_formats import MaskFormat, formats_for
from limelight.check.harness.signature import FIRST_STATE, forms
from limelight.check.harness.subject import Subject


def find_call(subject: Subject) -> None:
    """Set the form of the subject to one in which it can be called; CannotCall if there is none."""
    if _takes_only_sizes(subject):
        subject.form = Form("size")
        return
    error: Exception | None = None
    try:
        subject.masks = subject.mask_arguments()
        is_recurrent = FIRST_STATE in subject.roles.values()
        for form in forms(subject.kind, has_source=subject.has_source, is_recurrent=is_recurrent):
            subject.form = form
            for number, _ in enumerate(_instances(subject)):
                subject.construction = number
                try:
                    _try_to_call(subject)
                except Exception as raised:  # the checked code may raise anything
                    error = error or raised
                else:
                    _find_position_axis(subject)
                    return
    except CannotConstruct as raised:
        raise CannotCall(f"its constructor could not be called: {raised}") from None
    raise CannotCall(f"it could not be called: {_one_line(error)}")


def _takes_only_sizes(subject: Subject) -> bool:
    """Whether its arguments are sizes: those of a causal mask, or of a function that returns positions."""
    if subject.kind.reads_size:
        return True
    if not subject.kind.is_positional or subject.is_module:
        return False
    parameters = inspect.signature(subject.target).parameters.values()
    return len([p for p in parameters if p.default is p.empty]) == 2


@torch.no_grad()
def _find_position_axis(subject: Subject) -> None:
    """Find whether the first axis is that of the positions: (T, B, D), if positions mix along it."""
    if subject.form.inputs not in ("vectors", "tokens") or subject.form != replace(subject.form, query="BTD"):
        return
    if subject.kind.reads_scores or subject.kind.is_feed_forward or subject.kind.is_bare:
        return
    over_batch, over_positions = (_mixes(subject, axis) for axis in (0, 1))
    if not over_batch or over_positions:
        return
    form, subject.form = subject.form, replace(subject.form, time_first=True)
    try:
        if not _mixes(subject, 0):
            subject.notes.append("the first axis of its tensors is the axis of the positions: (T, B, D)")
            return
    except Exception:  # the other layout does not fit
        pass
    subject.form = form


def _mixes(subject: Subject, axis: int) -> bool:
    """Whether a change at one index of an axis changes the output at another index."""
    model, case = subject.model(), subject.case()
    x = case.x.clone()
    first = x.select(axis, 0)
    if subject.kind.is_positional and x.is_floating_point():
        out = subject.call(model, Case(torch.zeros_like(x))).out
        return not torch.allclose(out.select(axis, 0), out.select(axis, 1))
    if x.is_floating_point():
        first += torch.randn(first.shape)
    else:
        first.copy_(1 + first % (subject.sizes.vocabulary - 1))
    before, after = subject.call(model, case).out, subject.call(model, replace(case, x=x)).out
    if before.dim() <= axis:
        return True
    rest = [t.narrow(axis, 1, t.shape[axis] - 1) for t in (before, after)]
    return not torch.allclose(rest[0], rest[1], atol=1e-5, equal_nan=True)


@torch.no_grad()
def _try_to_call(subject: Subject) -> None:
    case = subject.case()
    required = [p.name for p in subject.parameters if p.default is p.empty]
    masks = [mask for mask in subject.masks if mask.name in required and mask.role != "state"]
    error: Exception | None = None
    # If masks are required, each format of a mask that hides nothing is tried.
    for mask_format in [None, *(formats_for("mask", "mask") if masks else [])]:
        for mask in masks:
            is_lengths = mask_format is not None and mask.role == "lengths"
            mask.required = mask_format is not None
            mask.format = MaskFormat("lengths", "B") if is_lengths else mask_format
        try:
            result = subject.call(subject.model(), case)
            _require_shape(subject, result, case)
        except Exception as raised:  # the checked code may raise anything
            error = error or raised
        else:
            return
    assert error is not None
    raise error


def _instances(subject: Subject) -> Iterator[Any]:
    if not subject.is_constructed:
        yield subject.target
        return
    yield from Constructor(subject.namespace).instances(subject.target, subject.kind, subject.sizes)


def _require_shape(subject: Subject, result: Result, case: Case) -> None:
    if subject.form.inputs in ("images", "size"):
        return
    out, x = result.out, case.x
    if out.dim() < 2 or out.shape[:2] != x.shape[:2]:
        raise CannotCall(
            f"its output for an input of shape {tuple(x.shape)} has the shape {tuple(out.shape)}"
        )


def _one_line(error: Exception | None) -> str:
    if error is None:
        return ""
    if isinstance(error, CannotCall):
        return str(error)
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
