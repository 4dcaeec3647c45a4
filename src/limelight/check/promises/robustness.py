"""Promises about robustness: inputs are not modified; any shape, precision and device works."""

import re
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Masks, Subject
from limelight.check.instruments.mask_influence import pattern_for
from limelight.check.instruments.second_device import device_fault
from limelight.check.places import Place, place_of_error
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding

ONE_POSITION = "sequences of one position"


def _all_masks(subject: Subject, case: Case) -> Masks:
    """A padding mask for each mask argument that has an effect."""
    return {
        mask.name: pattern_for(subject, mask, case)
        for mask in subject.masks
        if mask.has_effect and mask.format is not None
    }


@torch.no_grad()
def _not_modified(subject: Subject) -> Finding:
    model, case = subject.model(), subject.case()
    for masks in ({}, _all_masks(subject, case)):
        given = case.map(torch.clone)
        subject.call(model, given, masks, copied=False)
        for before, after in zip(case.tensors(), given.tensors(), strict=True):
            if not torch.equal(before, after):
                where = (before != after).nonzero()[0].tolist()
                conclude = warned if subject.kind.reads_scores else broken
                return conclude(
                    f"the input at {where} is {float(before[tuple(where)]):.2f} before the call",
                    "the same after it",
                    f"{float(after[tuple(where)]):.2f}",
                    place=_place_of_change(subject, model, case, masks),
                )
        for name in masks:
            mask, copy = subject.given_masks.get(name, (None, None))
            if mask is not None and copy is not None and not torch.equal(mask, copy):
                return broken(f"{name}, before and after the call", "the same", "it was modified")
    return KEPT


def _place_of_change(subject: Subject, model: Any, case: Case, masks: Masks) -> Place | None:
    """The first operation that changes a tensor with values of the input."""
    _, steps = subject.trace(model, case, masks)
    for step in steps:
        if not step.name.endswith("_") or not step.inputs or not isinstance(step.inputs[0], Tensor):
            continue
        if any(bool(torch.isin(step.inputs[0], given).all()) for given in case.tensors()):
            return step.place
    return None


@torch.no_grad()
def _any_shape(subject: Subject) -> Finding:
    if subject.kind.reads_scores and not subject.masks:
        return inapplicable("it takes no mask: it may be for a single row of scores")
    model = subject.model()
    whole = subject.case()
    out = subject.call(model, whole).out
    tries = {
        "a batch of one": (whole.map(lambda t: t[:1]), out[:1]),
        "the same input, not contiguous in memory": (whole.map(_not_contiguous), out),
    }
    for example, (case, expected) in tries.items():
        found = _output_or_error(subject, model, case, example)
        if isinstance(found, Finding):
            return found
        if found.shape != expected.shape or not torch.allclose(found, expected, atol=1e-4, equal_nan=True):
            return broken(example, _short(expected), _short(found))
    if subject.form.inputs == "images" or subject.form.query != "BTD" or _has_fixed_length(subject):
        return KEPT
    if subject.call(model, whole).shifted:
        return KEPT
    one = {"queries": 1} if subject.kind.reads_scores else {"queries": 1, "keys": 1}
    short = subject.case(**one)
    found = _output_or_error(subject, model, short, ONE_POSITION)
    if isinstance(found, Finding):
        return found
    if found.dim() != out.dim() or found.shape[:1] != out.shape[:1]:
        return broken(ONE_POSITION, f"an output with {out.dim()} axes", f"the shape {tuple(found.shape)}")
    if out.shape[1:2] == whole.x.shape[1:2] and found.shape[1:2] != short.x.shape[1:2]:
        return broken(ONE_POSITION, "one position in the output", f"the shape {tuple(found.shape)}")
    return KEPT


def _has_fixed_length(subject: Subject) -> bool:
    """Whether it is for sequences of one length, such as the patches of an image: not a maximum length."""
    sizes = subject.plan.sizes
    if sizes.queries == sizes.longest and not subject.kind.is_positional:  # it accepts no shorter ones
        return True
    names = [name for name, role in subject.constructor_roles.items() if role in ("longest", "patches")]
    is_maximum = any(re.search(r"max|block|context|longest", name.lower()) for name in names)
    return subject.sizes.queries == subject.sizes.longest and bool(names) and not is_maximum


def _output_or_error(subject: Subject, model: Any, case: Case, example: str) -> Tensor | Finding:
    try:
        return subject.call(model, case).out
    except Exception as error:  # the checked code may raise anything
        first = str(error).splitlines()[0] if str(error) else ""
        return broken(example, "an output", f"{type(error).__name__}: {first}", place=place_of_error(error))


def _not_contiguous(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def _short(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)}: {numbers(tensor.flatten()[:3])} …"


@torch.no_grad()
def _half(subject: Subject) -> Finding:
    """In half precision, with all masks."""
    model, case = subject.model(), subject.case()
    masks = _all_masks(subject, case)
    if not masks:
        return inapplicable("it has no working mask")
    if isinstance(model, nn.Module):
        model.half()
    half = case.map(lambda t: t.half() if t.is_floating_point() else t)
    try:
        out = subject.call(model, half, masks).out
    except Exception as error:  # an overflow, or an operation that does not exist on CPUs
        if "overflow" not in str(error):
            return inapplicable("torch cannot compute it in half precision on a CPU")
        got = str(error).splitlines()[0]
        return warned("float16, with a mask", "an output", got, place=place_of_error(error))
    finally:
        if isinstance(model, nn.Module):
            model.float()
    if bool(out.isnan().any()) and not bool(subject.call(subject.model(), case, masks).out.isnan().any()):
        return warned("float16, with a mask", "an output without NaN", "NaN")
    return KEPT


@torch.no_grad()
def _keeps_dtype_and_device(subject: Subject) -> Finding:
    """float32 stays float32, float64 stays float64; on another device, all tensors are on that device."""
    case = subject.case()
    all_masks = _all_masks(subject, case)
    for masks in ({}, all_masks) if all_masks else ({},):
        wrong = _wrong_dtype_or_device(subject, case, masks)
        if wrong is not None:
            return wrong
    return KEPT


def _wrong_dtype_or_device(subject: Subject, case: Case, masks: Masks) -> Finding | None:
    model = subject.model()
    single = subject.call(model, case, masks).out
    if single.dtype in (torch.float64, torch.float16, torch.bfloat16):
        return broken("float32 weights and inputs", "a float32 output", f"{single.dtype}")
    if isinstance(model, nn.Module):
        model.double()
    double = case.map(lambda t: t.double() if t.is_floating_point() else t)
    try:
        out = subject.call(model, double, masks).out
    except RuntimeError as error:
        if "dtype" in str(error) or "type" in str(error):
            got = str(error).splitlines()[0]
            return broken("float64 weights and inputs", "an output", got, place=place_of_error(error))
        return None
    if out.is_floating_point() and out.dtype != torch.float64:
        return broken("float64 weights and inputs", "a float64 output", f"{out.dtype}")
    return _wrong_device(subject, case, masks)


def _wrong_device(subject: Subject, case: Case, masks: Masks) -> Finding | None:
    fault = device_fault(subject, case, masks)
    if fault is None:
        return None
    conclude = warned if fault.is_convention else broken
    return conclude(
        "the module and its input are moved to a GPU",
        "all tensors are on the GPU",
        f"on a GPU: {fault.cause}"
        + (", unless the device that it gets is changed, too" if fault.is_convention else ""),
        place=fault.place,
    )


PROMISES = (
    Promise(
        "in-place",
        "inputs and masks are not modified",
        _not_modified,
        "+=, masked_fill_ and x[mask] = … modify the tensor of the caller",
    ),
    Promise(
        "edge-shapes",
        "a batch of one, a sequence of one and non-contiguous tensors work",
        _any_shape,
        "squeeze() without an axis removes every axis of size 1; view needs a contiguous tensor, reshape "
        "does not",
    ),
    Promise(
        "half",
        "masks work in half precision",
        _half,
        "-1e9 is outside the range of float16: use -inf, or torch.finfo(dtype).min",
    ),
    Promise(
        "dtype-device",
        "dtype and device of the output are those of the input",
        _keeps_dtype_and_device,
        "torch.zeros(…) and torch.arange(…) need device=x.device and dtype=x.dtype; register constants as "
        "buffers",
    ),
)
