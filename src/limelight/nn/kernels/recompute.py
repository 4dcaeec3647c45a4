"""Less memory for training: large tensors that are cheap to compute are not kept for the backward pass."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch import Size, Tensor
from torch.autograd.graph import saved_tensors_hooks

from limelight.nn.kernels.linear import is_transformed

LARGE = 2**18  # numbers; for smaller tensors, the calls take longer than the memory is worth

Saved = Tensor | tuple[Size, tuple[int, ...]]

_all_kept: ContextVar[bool] = ContextVar("all_kept", default=False)


@contextmanager
def all_kept() -> Iterator[None]:
    """A context in which nothing is recomputed: other hooks on saved tensors see all of them."""
    before = _all_kept.set(True)
    try:
        yield
    finally:
        _all_kept.reset(before)


def recomputed(tensor: Tensor, compute: Callable[[], Tensor]) -> AbstractContextManager[object]:
    """A context in which no operation keeps `tensor` for its backward pass: `compute` gives it again.

    `compute` must give the same numbers, and must not refer to `tensor`.
    """
    if (
        _all_kept.get()
        or tensor.numel() < LARGE
        or not (tensor.is_cpu and torch.is_grad_enabled())
        or is_transformed()
    ):
        return nullcontext()

    memory = tensor.data_ptr(), tensor.numel()  # torch keeps `pack`, which must not keep the tensor

    def pack(saved: Tensor) -> Saved:
        return (saved.shape, saved.stride()) if (saved.data_ptr(), saved.numel()) == memory else saved

    return saved_tensors_hooks(pack, _unpack(compute))


def _unpack(compute: Callable[[], Tensor]) -> Callable[[Saved], Tensor]:
    @torch.no_grad()
    def unpack(saved: Saved) -> Tensor:
        return saved if isinstance(saved, Tensor) else compute().as_strided(*saved)

    return unpack
