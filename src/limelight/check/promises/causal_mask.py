"""Promises about functions that make a causal mask."""

import re
from typing import Any

import torch
from torch import Tensor

from limelight.check.harness.argument_names import build_role
from limelight.check.harness.subject import Subject
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned

ALL_KEYS = re.compile(r"kv|total|cache|past")


def _mask_of(
    subject: Subject, size: int, tokens: Tensor | None = None, told: dict[str, int] | None = None
) -> Tensor:
    """-> (n, n), who may look at whom, in whatever polarity it is said; of no padding unless in `tokens`"""
    required = [p for p in subject.parameters if p.default is p.empty]
    if tokens is None:
        tokens = torch.ones(2, size, dtype=torch.long)
    trouble: Exception | None = None
    for one in (size, tokens, torch.randn(2, size, 4)):
        arguments = [_asked(p.name, one, size) for p in required]
        try:
            found = subject.target(*arguments, **(told or {}))
        except Exception as error:  # another kind of argument
            trouble = trouble or error
            continue
        found = found[0] if isinstance(found, (tuple, list)) else found
        if isinstance(found, Tensor) and found.shape[-2:-1] == (size,) and found.shape[-1] >= size:
            return found.reshape(-1, *found.shape[-2:])[0]
    raise trouble or ValueError(f"it gives no mask of ({size}, {size})")


def _asked(name: str, one: int | Tensor, size: int) -> Any:
    """What a required argument is given; whatever its name does not tell is `one`."""
    if build_role(name, is_layerless=True) == "pad":
        return 0
    if "dtype" in name:
        return torch.float32
    if "device" in name:
        return torch.device("cpu")
    return (2, size) if "shape" in name else one


def _causal_mask(subject: Subject) -> Outcome:
    size = 3
    mask = _mask_of(subject, size)
    for bigger in (5, 1):
        _mask_of(subject, bigger)
    shown = torch.ones(size, size, dtype=torch.bool).tril()
    allowed = _truth(mask)
    if mask.is_floating_point() and bool((mask < 0).any()) and bool((mask[~allowed] > -1e3).any()):
        return broken(f"size {size}", "-inf where the future is hidden", numbers(mask))
    if bool((allowed == shown).all()) or bool((allowed == ~shown).all()):
        return _with_past(subject) or _with_padding(subject, hides=not bool(allowed[0, 0])) or KEPT
    words = str(mask.tolist())
    if not bool((allowed != allowed.flatten()[0]).any()):
        return broken(f"size {size}", "the future is hidden, the past is shown", f"all alike: {words}")
    strict = torch.ones(size, size, dtype=torch.bool).tril(-1)
    if bool((allowed == strict).all()) or bool((allowed == ~strict).all()):
        return broken(f"size {size}", "each position may look at itself", f"the diagonal is hidden: {words}")
    return broken(f"size {size}", f"row t shows columns 0 to t: {shown.int().tolist()}", words)


def _truth(mask: Tensor) -> Tensor:
    return mask == 0 if mask.is_floating_point() and bool((mask < 0).any()) else mask.bool()


def _with_past(subject: Subject) -> Outcome | None:
    """Positions that come after others, which are in a cache."""
    after = {p.name: 3 for p in subject.parameters if type(p.default) is int and p.default == 0}
    among = {p.name: 5 for p in subject.parameters if p.default is None and ALL_KEYS.search(p.name)}
    for name, number in (after | among).items():
        try:
            mask = _truth(_mask_of(subject, 2, told={name: number}))
        except Exception:  # it means something else
            continue
        if mask.shape != (2, 5):
            continue
        shown = torch.ones(2, 5, dtype=torch.bool).tril(3)
        if not torch.equal(mask, shown) and not torch.equal(mask, ~shown):
            say = broken if name in after else warned
            return say(
                f"2 positions, {name}={number}: they come after 3 others",
                f"the first sees columns 0 to 3: {shown.int().tolist()}",
                str(mask.int().tolist()),
            )
    return None


def _with_padding(subject: Subject, *, hides: bool) -> Outcome | None:
    """Where it is told which token is padding: that is hidden, too."""
    names = [p for p in subject.parameters if build_role(p.name, is_layerless=True) == "pad"]
    tries: list[tuple[int, dict[str, int]]] = [(0, {})] if names else []
    tries += [(7, {p.name: 7}) for p in names if type(p.default) is int]
    for pad, told in tries:
        mask = _truth(_mask_of(subject, 3, torch.tensor([[1, 1, pad]] * 2), told))
        if not bool((mask[:, 2] == hides).all()):
            return broken(
                f"tokens 1 1 {pad}, of which {pad} is padding",
                "column 2 is hidden in every row",
                str(mask.int().tolist()),
            )
    return None


def _device(subject: Subject) -> Outcome:
    if "device" not in [p.name for p in subject.parameters]:
        return _device_of_input(subject)
    required = [p.name for p in subject.parameters if p.default is p.empty and p.name != "device"]
    made = subject.target(*[_asked(name, 3, 3) for name in required], device="meta")
    if made.device.type == "meta":
        return KEPT
    return broken('device="meta"', "a mask on that device", f"one on {made.device}")


def _device_of_input(subject: Subject) -> Outcome:
    """A mask that is made for a tensor is made where that is."""
    required = [p.name for p in subject.parameters if p.default is p.empty]
    for one in (3, torch.ones(2, 3, dtype=torch.long, device="meta"), torch.ones(2, 3, 4, device="meta")):
        try:
            made = subject.target(*[_asked(name, one, 3) for name in required])
        except Exception:  # another kind of argument
            continue
        if isinstance(one, int) or not isinstance(made, Tensor):
            return inapplicable("it takes no device")
        if made.device.type == "meta":
            return KEPT
        return broken("a tensor on another device", "a mask on that device", f"one on {made.device}")
    return inapplicable("it takes no device")


CAUSAL = (
    Promise(
        "causality",
        "each position may look at itself and what came before it, and at nothing later",
        _causal_mask,
        "torch.tril(ones) shows the past; torch.triu(ones, diagonal=1) is the future, without the diagonal",
    ),
    Promise(
        "dtype-device", "the mask is made where it was asked for", _device, "pass the device on to torch.ones"
    ),
)
