"""Parameters whose memory was allocated, but never filled: torch.empty(n), torch.Tensor(n)."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from limelight.check.instruments.op_trace import Recorder


class _Allocations(Recorder):
    """The memory of tensors that were allocated and not written to."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.empty: dict[int, Tensor] = {}  # the tensors are kept, so that no address is used twice

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        result = func(*args, **(kwargs or {}))
        if name in ("empty", "new_empty", "empty_like", "empty_strided"):
            self.empty[_address(result)] = result
        elif name.endswith("_") and args and isinstance(args[0], Tensor):
            self.empty.pop(_address(args[0]), None)
        return result


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def uninitialised_parameters(construct: Callable[[], Any]) -> list[str]:
    """The names of the parameters that a constructor leaves without values."""
    with _Allocations() as allocations:
        model = construct()
    if not isinstance(model, nn.Module):
        return []
    found = [(name, p) for name, p in model.named_parameters() if not isinstance(p, UninitializedParameter)]
    return [name for name, p in found if p.numel() and _address(p) in allocations.empty]
