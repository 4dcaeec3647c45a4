"""Checks of arguments. Each raises an error that names the argument and the allowed values."""

from numbers import Integral

import torch
from torch import Tensor

from limelight.errors import wrong


def check_size(argument: str, value: int) -> int:
    """Checks an integer of at least 1, and returns it."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise wrong(argument, repr(value), "an integer of at least 1")
    return int(value)


def check_dropout(value: float) -> float:
    """Checks a probability of at least 0 and less than 1, and returns it."""
    if not 0.0 <= value < 1.0:
        raise wrong("dropout", value, "at least 0 and less than 1")
    return value


def check_floating(argument: str, value: Tensor) -> None:
    """Checks that a tensor holds floating-point numbers."""
    if not value.is_floating_point():
        hint = "a mask is passed as mask=" if value.dtype == torch.bool else "token ids are embedded first"
        raise wrong(argument, f"of type {value.dtype}", f"floating-point numbers; {hint}")


def check_axes(argument: str, value: Tensor, axes: str, width: int) -> None:
    """Checks that a tensor has as many axes as, for example, "(B, T, D)", and a last axis of `width`."""
    check_floating(argument, value)
    any_lead = axes.startswith("(...")
    if (value.dim() != axes.count(",") + 1 and not any_lead) or value.shape[-1:] != (width,):
        allowed = f"{axes} with a last axis of {width}"
        raise wrong(argument, f"of shape {tuple(value.shape)}", allowed)


def check_batch(argument: str, value: Tensor, batch: int, owner: str) -> None:
    """Checks that the first axis of a tensor is the batch size of `owner`."""
    if value.shape[0] != batch:
        raise wrong(f"batch size of {argument}", value.shape[0], f"{batch}, that of {owner}")


def check_mask(argument: str, mask: Tensor, shape: tuple[int, ...], axes: str) -> None:
    """Checks that a mask is boolean and covers `shape`: the whole last axis; every other axis may be 1."""
    if mask.dtype != torch.bool:
        raise wrong(argument, f"of type {mask.dtype}", "torch.bool, True where it may attend")
    whole = len(mask.shape) == len(shape) and mask.shape[-1:] == shape[-1:]
    if whole and all(size in (1, full) for size, full in zip(mask.shape, shape, strict=True)):
        return
    allowed = f"{axes} = {shape}, where every axis but the last may be 1"
    if mask.dim() == 2 and len(shape) == 3:
        allowed += "; write mask[None] for a (T, S) mask, mask[:, None] for a (B, S) mask"
    elif mask.shape[-2:-1] == (1,) and mask.shape[-1] < shape[-1]:
        allowed += f"; padding_mask(lengths, {shape[-1]}) is as long as the batch"
    raise wrong(argument, f"of shape {tuple(mask.shape)}", allowed)
