"""A second device for machines without a GPU: it computes on the CPU, and refuses tensors that are there.

Its tensors are those of the meta device, which have shapes and gradients but no values. `SecondDevice` keeps
the values beside them, by storage, so that views, gradients and flat parameters share memory as usual.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch._dynamo  # modes import it; this must be before the patches below
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

CPU, DEVICE = torch.device("cpu"), torch.device("meta")
# Operations that take tensors on two devices on a GPU, too: copies, and lengths that must be on the CPU.
TWO_DEVICES = {"to", "_to_copy", "copy_", "_pack_padded_sequence", "_pad_packed_sequence"}
# These may select by an index on the CPU from a tensor on another device, but not the other way round.
BY_INDEX = {"index", "index_put", "index_put_", "_index_put_impl_"}


class SecondDevice(TorchDispatchMode):
    """Inside this context, tensors on `DEVICE` have values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values: dict[int, torch.UntypedStorage] = {}  # by the address of the storage on the device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_flatten((args, kwargs or {}))[0]
        tensors = [one for one in given if isinstance(one, Tensor)]
        there = [one for one in tensors if one.device == DEVICE]
        _refuse_mixture(func, tensors, there)
        target = next((one for one in given if isinstance(one, torch.device)), DEVICE if there else CPU)
        here = {id(one): self._on_cpu(one) for one in there}

        def on_cpu(value: Any) -> Any:
            return CPU if isinstance(value, torch.device) else here.get(id(value), value)

        new_args, new_kwargs = tree_map(on_cpu, (args, kwargs or {}))
        result = func(*new_args, **new_kwargs)
        if func._schema.name == "aten::copy_":
            return args[0]
        moved = func._schema.name == "aten::to" and target != tensors[0].device
        if moved:  # on one device, it is not copied
            result = result.clone()
        if target != DEVICE:
            return result
        changed = {id(here[id(one)]): one for one in there}
        origins = {here[id(one)].untyped_storage()._cdata: one for one in there}
        if func._schema.name == "aten::_pack_padded_sequence":  # the sizes of the batches stay on the CPU
            return self._on_device(result[0], origins, changed), result[1]
        return tree_map(lambda one: self._on_device(one, origins, changed), result)

    def _on_cpu(self, tensor: Tensor) -> Tensor:
        """A tensor on the CPU with the values of one on the device; it shares their memory."""
        values = self._values[tensor.untyped_storage()._cdata]
        empty = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(values, tensor.storage_offset(), tensor.shape, tensor.stride())

    def _on_device(self, result: Any, origins: dict[int, Tensor], changed: dict[int, Tensor]) -> Any:
        """A result as a tensor on the device: an argument that was changed, a view of one, or a new one."""
        if not isinstance(result, Tensor):
            return result
        if result.dtype == torch.float64:
            raise TypeError("this device has no float64")  # like MPS
        values = result.untyped_storage()
        if values._cdata in origins:
            storage = origins[values._cdata].untyped_storage()
        else:
            storage = torch.UntypedStorage(values.nbytes(), device=DEVICE)
            self._values[storage._cdata] = values
        found = changed.get(id(result), torch.empty(0, dtype=result.dtype, device=DEVICE))
        return found.set_(storage, result.storage_offset(), result.shape, result.stride())


def _refuse_mixture(func: Any, given: list[Tensor], there: list[Tensor]) -> None:
    """The error of a GPU. A tensor with one value and no axes may be on the CPU."""
    name = func._schema.name.removeprefix("aten::")
    others = [one for one in given if one.device != DEVICE and one.dim()]
    if there and others and name not in TWO_DEVICES and not (name in BY_INDEX and given[0].device == DEVICE):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device")


class _Factories(TorchFunctionMode):
    """Values that are given as numbers would be lost on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") == DEVICE:
            del kwargs["device"]
            return func(*args, **kwargs).to(DEVICE)
        if func is Tensor.new_tensor and args[0].device == DEVICE:
            return torch.tensor(args[1], dtype=args[0].dtype).to(DEVICE)
        return func(*args, **kwargs)


@contextmanager
def second_device() -> Iterator[torch.device]:
    """The device, with what torch does not have for the meta device: random numbers and autocast."""
    generator, autocast = torch.Generator, torch.autocast
    with pytest.MonkeyPatch.context() as patch, SecondDevice(), _Factories():
        patch.setattr(torch, "Generator", lambda device="cpu": generator("cpu"))
        patch.setattr(torch, "autocast", lambda device, *given, **named: autocast("cpu", *given, **named))
        patch.setattr(torch, "get_device_module", lambda device: torch)
        # The meta device does not have tensors without version counters.
        patch.setattr(torch._C, "_InferenceMode", lambda mode: torch.set_grad_enabled(not mode))
        # Tied weights stay tied, as on a GPU.
        patch.setattr(torch.__future__, "_swap_module_params_on_conversion", True)
        yield DEVICE
