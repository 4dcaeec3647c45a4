"""Promises about functions that return a causal mask."""

import re
from typing import Any

import torch
from torch import Tensor

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.subject import Subject
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding

COUNT_OF_KEYS = re.compile(r"kv|total|cache|past")


def _mask_of(
    subject: Subject, size: int, tokens: Tensor | None = None, given: dict[str, int] | None = None
) -> Tensor:
    """-> (T, S): the mask for one sequence, in any polarity; `tokens` may have padding"""
    required = [p for p in subject.parameters if p.default is p.empty]
    if tokens is None:
        tokens = torch.ones(2, size, dtype=torch.long)
    error: Exception | None = None
    for value in (size, tokens, torch.randn(2, size, 4)):
        arguments = [_argument(p.name, value, size) for p in required]
        try:
            found = subject.target(*arguments, **(given or {}))
        except Exception as raised:  # it takes another type of argument
            error = error or raised
            continue
        found = found[0] if isinstance(found, (tuple, list)) else found
        if isinstance(found, Tensor) and found.shape[-2:-1] == (size,) and found.shape[-1] >= size:
            return found.reshape(-1, *found.shape[-2:])[0]
    raise error or ValueError(f"it returns no mask of shape ({size}, {size})")


def _argument(name: str, value: int | Tensor, size: int) -> Any:
    """The value of a required argument: by its name if that is known, or else `value`."""
    if constructor_role(name) == "pad":
        return 0
    if "dtype" in name:
        return torch.float32
    if "device" in name:
        return torch.device("cpu")
    return (2, size) if "shape" in name else value


def _causality(subject: Subject) -> Finding:
    size = 3
    mask = _mask_of(subject, size)
    for other in (5, 1):
        _mask_of(subject, other)
    past = torch.ones(size, size, dtype=torch.bool).tril()
    allowed = _as_bool(mask)
    if mask.is_floating_point() and bool((mask < 0).any()) and bool((mask[~allowed] > -1e3).any()):
        return broken(f"size {size}", "-inf at later positions", numbers(mask))
    if bool((allowed == past).all()) or bool((allowed == ~past).all()):
        return _after_others(subject) or _with_padding(subject, true_hides=not bool(allowed[0, 0])) or KEPT
    values = str(mask.tolist())
    if not bool((allowed != allowed.flatten()[0]).any()):
        return broken(f"size {size}", "only later positions are hidden", f"all values are equal: {values}")
    strict = torch.ones(size, size, dtype=torch.bool).tril(-1)
    if bool((allowed == strict).all()) or bool((allowed == ~strict).all()):
        return broken(
            f"size {size}", "each position may attend to itself", f"the diagonal is hidden: {values}"
        )
    return broken(f"size {size}", f"row t allows columns 0 to t: {past.int().tolist()}", values)


def _as_bool(mask: Tensor) -> Tensor:
    return mask == 0 if mask.is_floating_point() and bool((mask < 0).any()) else mask.bool()


def _after_others(subject: Subject) -> Finding | None:
    """The mask of positions that follow others, whose keys are in a cache."""
    offsets = {p.name: 3 for p in subject.parameters if type(p.default) is int and p.default == 0}
    counts = {p.name: 5 for p in subject.parameters if p.default is None and COUNT_OF_KEYS.search(p.name)}
    for name, value in (offsets | counts).items():
        try:
            mask = _as_bool(_mask_of(subject, 2, given={name: value}))
        except Exception:  # the argument has another meaning
            continue
        if mask.shape != (2, 5):
            continue
        past = torch.ones(2, 5, dtype=torch.bool).tril(3)
        if not torch.equal(mask, past) and not torch.equal(mask, ~past):
            conclude = broken if name in offsets else warned
            return conclude(
                f"2 positions, {name}={value}: they follow 3 others",
                f"the first one may attend to columns 0 to 3: {past.int().tolist()}",
                str(mask.int().tolist()),
            )
    return None


def _with_padding(subject: Subject, *, true_hides: bool) -> Finding | None:
    """If it takes a padding token, padding is hidden, too."""
    parameters = [p for p in subject.parameters if constructor_role(p.name) == "pad"]
    tries: list[tuple[int, dict[str, int]]] = [(0, {})] if parameters else []
    tries += [(7, {p.name: 7}) for p in parameters if type(p.default) is int]
    for pad, given in tries:
        mask = _as_bool(_mask_of(subject, 3, torch.tensor([[1, 1, pad]] * 2), given))
        if not bool((mask[:, 2] == true_hides).all()):
            return broken(
                f"tokens 1 1 {pad}, where {pad} is padding",
                "column 2 is hidden in every row",
                str(mask.int().tolist()),
            )
    return None


def _device(subject: Subject) -> Finding:
    if "device" not in [p.name for p in subject.parameters]:
        return _device_of_input(subject)
    required = [p.name for p in subject.parameters if p.default is p.empty and p.name != "device"]
    mask = subject.target(*[_argument(name, 3, 3) for name in required], device="meta")
    if mask.device.type == "meta":
        return KEPT
    return broken('device="meta"', "a mask on that device", f"a mask on {mask.device}")


def _device_of_input(subject: Subject) -> Finding:
    """The mask for a tensor is on the device of that tensor."""
    required = [p.name for p in subject.parameters if p.default is p.empty]
    for value in (3, torch.ones(2, 3, dtype=torch.long, device="meta"), torch.ones(2, 3, 4, device="meta")):
        try:
            mask = subject.target(*[_argument(name, value, 3) for name in required])
        except Exception:  # it takes another type of argument
            continue
        if isinstance(value, int) or not isinstance(mask, Tensor):
            return inapplicable("it takes no device")
        if mask.device.type == "meta":
            return KEPT
        return broken("a tensor on another device", "a mask on that device", f"a mask on {mask.device}")
    return inapplicable("it takes no device")


PROMISES = (
    Promise(
        "causality",
        "each position may attend to itself and to earlier positions, and to no later one",
        _causality,
        "torch.tril(ones) is True where a position may attend; torch.triu(ones, diagonal=1), without the "
        "diagonal, is True where it may not",
        variant="mask",
    ),
    Promise(
        "dtype-device",
        "the mask is on the device of its arguments",
        _device,
        "pass device=... to torch.ones",
        variant="mask",
    ),
)
