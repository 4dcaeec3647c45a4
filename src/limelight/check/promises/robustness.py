"""Promises about manners: inputs left alone, any shape, precision and device."""

from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import pattern
from limelight.check.instruments.op_trace import Step
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned


def _hidden(subject: Subject, case: Case) -> dict[str, Tensor]:
    """All masks that work, said."""
    return {
        mask.name: pattern(subject, mask, case)
        for mask in subject.masks
        if mask.effect and mask.way is not None
    }


@torch.no_grad()
def _left_alone(subject: Subject) -> Outcome:
    model, case = subject.model(), subject.case()
    for hide in ({}, _hidden(subject, case)):
        given = case.each(torch.clone)
        subject.call(model, given, hide, copied=False)
        for before, after in zip(case.tensors(), given.tensors(), strict=True):
            if not torch.equal(before, after):
                where = (before != after).nonzero()[0].tolist()
                say = warned if subject.kind == "masked-softmax" else broken
                return say(
                    f"the input at {where} is {float(before[tuple(where)]):.2f} before the call",
                    "the same after it",
                    f"{float(after[tuple(where)]):.2f}",
                )
        for name in hide:
            given_mask, mask = subject.said.get(name, (None, None))
            if given_mask is not None and mask is not None and not torch.equal(given_mask, mask):
                return broken(f"{name}, before the call and after it", "the same", "it was changed")
    return KEPT


@torch.no_grad()
def _any_shape(subject: Subject) -> Outcome:
    model = subject.model()
    whole = subject.case()
    out = subject.call(model, whole).out
    tries = {
        "a batch of one": (whole.each(lambda t: t[:1]), out[:1]),
        "the same input, not contiguous in memory": (whole.each(_scattered), out),
    }
    for words, (case, expected) in tries.items():
        found = _tried(subject, model, case, words)
        if isinstance(found, Outcome):
            return found
        if found.shape != expected.shape or not torch.allclose(found, expected, atol=1e-4, equal_nan=True):
            return broken(words, f"{_short(expected)}", f"{_short(found)}")
    if subject.form.inputs == "images" or subject.form.query != "BTD":
        return KEPT
    one = {"queries": 1, "keys": 1} if subject.kind != "masked-softmax" else {"queries": 1}
    short = subject.case(**one)
    found = _tried(subject, model, short, "one token")
    if isinstance(found, Outcome):
        return found
    if found.dim() != out.dim() or found.shape[:1] != out.shape[:1]:
        return broken("one token", f"an output of {out.dim()} axes", f"{tuple(found.shape)}")
    if out.shape[1:2] == whole.x.shape[1:2] and found.shape[1:2] != short.x.shape[1:2]:
        return broken("one token", "an output for one", f"{tuple(found.shape)}")
    return KEPT


def _tried(subject: Subject, model: Any, case: Case, words: str) -> Tensor | Outcome:
    try:
        return subject.call(model, case).out
    except Exception as error:  # what their code cannot take
        first = str(error).splitlines()[0] if str(error) else ""
        return broken(words, "an output", f"{type(error).__name__}: {first}")


def _scattered(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def _short(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)}: {numbers(tensor.flatten()[:3])} …"


@torch.no_grad()
def _half(subject: Subject) -> Outcome:
    """In half precision, with every mask said."""
    model, case = subject.model(), subject.case()
    hide = _hidden(subject, case)
    if not hide:
        return inapplicable("it takes no mask")
    if isinstance(model, nn.Module):
        model.half()
    half = case.each(lambda t: t.half() if t.is_floating_point() else t)
    try:
        out = subject.call(model, half, hide).out
    except Exception as error:  # either an overflow, or an operation that CPUs do not have
        if "overflow" not in str(error):
            return inapplicable("this torch cannot compute it in half precision on a CPU")
        return warned("float16, with a mask", "an output", str(error).splitlines()[0])
    finally:
        if isinstance(model, nn.Module):
            model.float()
    if bool(out.isnan().any()) and not bool(subject.call(subject.model(), case, hide).out.isnan().any()):
        return warned("float16, with a mask", "numbers", "NaN")
    return KEPT


@torch.no_grad()
def _follows(subject: Subject) -> Outcome:
    """Single precision stays single, double stays double; moved to another device, nothing stays behind."""
    case = subject.case()
    hide = _hidden(subject, case)
    for said in ({}, hide) if hide else ({},):
        found = _follows_under(subject, case, said)
        if found is not None:
            return found
    return KEPT


def _follows_under(subject: Subject, case: Case, hide: dict[str, Tensor]) -> Outcome | None:
    model = subject.model()
    single = subject.call(model, case, hide).out
    if single.dtype in (torch.float64, torch.float16, torch.bfloat16):
        return broken(
            "float32 weights and inputs", "float32 comes out", str(single.dtype).removeprefix("torch.")
        )
    if isinstance(model, nn.Module):
        model.double()
    double = case.each(lambda t: t.double() if t.is_floating_point() else t)
    try:
        out = subject.call(model, double, hide).out
    except RuntimeError as error:
        if "dtype" in str(error) or "type" in str(error):
            return broken("float64 weights and inputs", "an output", str(error).splitlines()[0])
        return None
    if out.is_floating_point() and out.dtype != torch.float64:
        return broken(
            "float64 weights and inputs", "float64 comes out", str(out.dtype).removeprefix("torch.")
        )
    model = subject.model()
    model = model.to("meta") if isinstance(model, nn.Module) else model
    try:
        _, steps = subject.trace(model, case.each(lambda t: t.to("meta")), hide)
        left = next((step for step in steps if _stayed_behind(step)), None)
        if left is not None:
            what = "module and inputs on another device"
            return broken(
                what, "all that is made on the way is made there", f"{left.name} is given a CPU's tensor"
            )
    except (RuntimeError, NotImplementedError) as error:
        if "is not on the expected device" in str(error) or "on the same device" in str(error):
            return broken(
                "module and inputs on another device", "an output there", str(error).splitlines()[0]
            )
    except Exception:  # what their code raises for want of numbers tells nothing about devices
        return None
    return None


# Torch's operations that take tensors of two devices.
MOVING = ("_to_copy", "copy_", "index", "index_put", "index_put_", "_index_put_impl_", "to")


def _stayed_behind(step: Step) -> bool:
    tensors = [value for value in step.inputs if isinstance(value, Tensor)]
    devices = {tensor.device.type for tensor in tensors if tensor.dim()}
    return len(devices) > 1 and step.name not in MOVING


PROMISES = (
    Promise(
        "in-place",
        "inputs are left as they are",
        _left_alone,
        "+=, masked_fill_ and x[mask] = … write into what the caller still needs",
    ),
    Promise(
        "edge-shapes",
        "a batch of one, one token and any layout in memory work",
        _any_shape,
        "squeeze() without an axis drops more than meant; view needs contiguous memory where reshape "
        "does not",
    ),
    Promise(
        "half",
        "half precision does not overflow",
        _half,
        "-1e9 is beyond float16: fill with -inf, or torch.finfo(dtype).min",
    ),
    Promise(
        "dtype-device",
        "precision and device follow the input",
        _follows,
        "torch.zeros(…) and torch.arange(…) need device=x.device; constants belong into buffers",
    ),
)
