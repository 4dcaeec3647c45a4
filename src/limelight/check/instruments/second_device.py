"""What would happen on a GPU: the same call on the meta device, whose tensors have no values.

An operation on tensors of two devices fails on a GPU. The tensor on the CPU is made by the checked code: in
the call, or in the constructor as an attribute that `.to(device)` does not move. If the device is an argument
or a global variable, it is set to the second device and the call is repeated.
"""

import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Masks, Subject
from limelight.check.instruments.op_trace import Step, Trace
from limelight.check.instruments.parts import place_of_definition
from limelight.check.places import Place, is_checked

OTHER = "meta"
# Operations of torch that accept tensors on two devices.
TWO_DEVICES = ("_to_copy", "copy_", "index", "index_put", "index_put_", "_index_put_impl_", "to")
# Functions that make a tensor, by the names of their operations.
MAKERS = {
    "arange": "torch.arange(…)",
    "zeros": "torch.zeros(…)",
    "ones": "torch.ones(…)",
    "full": "torch.full(…)",
    "empty": "torch.empty(…)",
    "eye": "torch.eye(…)",
    "linspace": "torch.linspace(…)",
    "randn": "torch.randn(…)",
    "rand": "torch.rand(…)",
    "lift_fresh": "torch.tensor(…)",
    "tril_indices": "torch.tril_indices(…)",
    "triu_indices": "torch.triu_indices(…)",
}
DEVICE_NAME = re.compile(r"cpu|cuda(:\d+)?")


@dataclass(frozen=True)
class DeviceFault:
    """A tensor that is not on the device of the module and its input."""

    cause: str  # such as "torch.arange(…) makes a tensor on the CPU"
    attribute: str  # the attribute that holds it, or nothing
    place: Place | None
    is_convention: bool  # the device is an argument or a global variable, which the caller sets


def device_fault(subject: Subject, case: Case, masks: Masks) -> DeviceFault | None:
    """The first tensor on the wrong device; None if there is none, or if it cannot be tested."""
    model = subject.model()
    if not _has_tensors_of_its_own(subject, model, case, masks):
        return None  # without the second device, whose operations import the compiler
    steps, mixed = _steps_on_other_device(subject, _moved(model), case, masks)
    if mixed is None:
        return None
    with _globals_on_other_device():
        adapted = _with_other_device(_moved(subject.model()))
        still_mixed = _steps_on_other_device(subject, adapted, case, masks)[1]
    found = (
        _made_in_call(steps) or _made_in_constructor(model) or ("a tensor stays on the CPU", "", mixed.place)
    )
    is_convention = still_mixed is None or _mentions_cuda(found[2])
    return DeviceFault(*found, is_convention)


def _has_tensors_of_its_own(subject: Subject, model: Any, case: Case, masks: Masks) -> bool:
    """Whether the code makes a tensor in the call, or has one that is no parameter and no buffer."""
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    values = [value for part in parts for value in vars(part).values()]
    values += [value for module in _checked_modules() for value in list(vars(module).values())]
    uses_numpy = any(isinstance(value, ModuleType) and value.__name__ == "numpy" for value in values)
    if uses_numpy or any(isinstance(value, Tensor) for value in values):
        return True
    _, steps = subject.trace(model, case, masks)
    return any(not any(isinstance(one, Tensor) for one in _flat(step.inputs)) for step in steps)


def _checked_modules() -> list[ModuleType]:
    return [one for one in list(sys.modules.values()) if is_checked(getattr(one, "__file__", None) or "<")]


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _moved(model: Any) -> Any:
    return model.to(OTHER) if isinstance(model, nn.Module) else model


def _steps_on_other_device(
    subject: Subject, model: Any, case: Case, masks: Masks
) -> tuple[list[Step], Step | None]:
    """The operations up to the first one on two devices; and that one, if there is one."""
    recorder = Trace()
    try:
        with torch.no_grad(), recorder:
            subject.call(model, case.map(lambda t: t.to(OTHER)), masks)
    except (RuntimeError, NotImplementedError) as error:
        text = str(error)
        if "is not on the expected device" in text or "on the same device" in text:
            failed = recorder.failed
            return recorder.steps, failed if failed is not None else recorder.steps[-1]
    except Exception:  # tensors of the meta device have no values, which the checked code may need
        return recorder.steps, None
    for index, step in enumerate(recorder.steps):
        if _mixes_devices(step):
            return recorder.steps[:index], step
    return recorder.steps, None


def _mixes_devices(step: Step) -> bool:
    tensors = [value for value in step.inputs if isinstance(value, Tensor)]
    devices = {tensor.device.type for tensor in tensors if tensor.dim()}
    return len(devices) > 1 and step.name not in TWO_DEVICES


def _made_in_call(steps: list[Step]) -> tuple[str, str, Place | None] | None:
    """The last tensor that the checked code made on the CPU."""
    for step in reversed(steps):
        if step.name in MAKERS and step.output.device.type == "cpu" and step.place is not None:
            return f"{MAKERS[step.name]} makes a tensor on the CPU", "", step.place
    return None


def _made_in_constructor(model: Any) -> tuple[str, str, Place | None] | None:
    """A tensor that is a plain attribute of a module."""
    for path, part in model.named_modules() if isinstance(model, nn.Module) else ():
        for name, value in vars(part).items():
            if isinstance(value, Tensor):
                place = place_of_definition(model, f"{path}.{name}".lstrip("."))
                cause = f"self.{name} is a tensor, but no buffer: .to(device) leaves it on the CPU"
                return cause, name, place
    return None


def _mentions_cuda(place: Place | None) -> bool:
    """Whether the device is chosen in that line: "cuda" if it is available."""
    return place is not None and "cuda" in linecache.getline(*place)


def _is_device(value: object) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and bool(DEVICE_NAME.fullmatch(value)))


def _with_other_device(model: Any) -> Any:
    """The module as if its constructor had got the second device."""
    for path, part in model.named_modules() if isinstance(model, nn.Module) else ():
        takes_device = "device" in inspect.signature(type(part)).parameters
        of_classes = {
            name: value for cls in reversed(type(part).__mro__) for name, value in vars(cls).items()
        }
        for name, value in list((of_classes | vars(part)).items()):
            if _is_device(value) or (name == "device" and value is None):
                setattr(part, name, torch.device(OTHER))
            elif isinstance(value, Tensor):
                place = place_of_definition(model, f"{path}.{name}".lstrip("."))
                if takes_device or (place and "device" in linecache.getline(*place)):
                    setattr(part, name, value.to(OTHER))
    return model


@contextmanager
def _globals_on_other_device() -> Iterator[None]:
    """Inside this context, global variables of the checked code that are devices are the second device."""
    changed = [
        (vars(module), name, value)
        for module in _checked_modules()
        for name, value in list(vars(module).items())
        if _is_device(value)
    ]
    for variables, name, _ in changed:
        variables[name] = torch.device(OTHER)
    try:
        yield
    finally:
        for variables, name, value in changed:
            variables[name] = value
