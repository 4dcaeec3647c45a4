"""How a wrong argument is refused: its name, its value, what is allowed. Always the same words."""

from torch import Tensor


def wrong(argument: str, value: object, allowed: str) -> ValueError:
    return ValueError(f"{argument} is {value}; allowed: {allowed}")


def check_size(argument: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise wrong(argument, repr(value), "a whole number of at least 1")
    return value


def check_dropout(value: float) -> float:
    if not 0.0 <= value < 1.0:
        raise wrong("dropout", value, "at least 0 and less than 1")
    return value


def check_floating(argument: str, value: Tensor) -> None:
    if not value.is_floating_point():
        raise wrong(argument, f"of type {value.dtype}", "floating-point numbers")


def check_axes(argument: str, value: Tensor, axes: str, width: int | None = None) -> None:
    """Refuse a tensor whose number of axes, or whose last size, is not that of e.g. "(B, T, D)"."""
    check_floating(argument, value)
    if value.dim() != axes.count(",") + 1 or (width is not None and value.shape[-1] != width):
        last = "" if width is None else f" with a last axis of {width}"
        raise wrong(argument, f"of shape {tuple(value.shape)}", axes + last)
