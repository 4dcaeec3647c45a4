"""Masks: which position may attend to which.

Every mask in this library is boolean, **True means "may attend"**, and has as many axes as the tensor that it
masks, so that no shape is ambiguous.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from limelight.errors import wrong


def padding_mask(lengths: Tensor | Sequence[int], size: int | None = None) -> Tensor:
    """(B) -> (B, 1, S)

    True at the first `lengths` of `size` positions; `size` is the maximum length by default. Lengths of shape
    (B, T) give each query its own number of keys; the mask is then (B, T, S).
    """
    if torch.compiler.is_exporting() and isinstance(lengths, Tensor) and size is not None:
        # Numbers in tensors are unknown, and the size is a symbol.
        return _up_to(lengths, size)
    lengths = torch.as_tensor(lengths)
    if not lengths.numel():
        lengths = lengths.long()  # torch.tensor([]) is of type float
    if lengths.dtype.is_floating_point or lengths.dtype.is_complex or lengths.dtype == torch.bool:
        raise wrong("lengths", f"of type {lengths.dtype}", "integers")
    if lengths.dim() not in (1, 2):
        raise wrong("lengths", f"of shape {tuple(lengths.shape)}", "(B) or (B, T)")
    longest = int(lengths.max()) if lengths.numel() else 0
    size = longest if size is None else size
    if not isinstance(size, int) or size < 0:
        raise wrong("size", repr(size), "an integer of at least 0")
    if longest > size or (lengths < 0).any():
        raise wrong("lengths", f"from {int(lengths.min())} to {longest}", f"0 to size={size}")
    return _up_to(lengths, size)


def _up_to(lengths: Tensor, size: int) -> Tensor:
    """(B) | (B, T) -> (B, 1, S) | (B, T, S)"""
    if lengths.dim() == 1:
        lengths = lengths.unsqueeze(1)
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


def hide_not_finite(x: Tensor, mask: Tensor | None) -> Tensor:
    """(..., S, W), (..., T|1, S) -> (..., S, W)

    Replaces NaN and infinity with zero at positions that no query may attend to: a weight of zero does not
    hide them, because 0 × NaN is NaN. Finite values stay: such a position may still be a query.
    """
    if mask is None or _is_finite(x):
        return x
    return x.masked_fill(~(mask.any(-2).unsqueeze(-1) | x.isfinite()), 0.0)


def _is_finite(x: Tensor) -> bool:
    """True if all elements are known to be finite. Their sum is a single number, and cheap on a CPU."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    try:
        return bool(x.detach().sum().isfinite())
    except RuntimeError:  # inside torch.func.vmap, the value of a tensor cannot be read
        return False


def causal_mask(size: int, past: int = 0, *, device: torch.device | None = None) -> Tensor:
    """-> (1, T, S)

    True on and below the diagonal, where S = past + T: query t may attend to the `past` keys before the first
    query, and to all keys up to its own position.
    """
    if size < 0 or past < 0:
        raise wrong("size, past", f"({size}, {past})", "integers of at least 0")
    return torch.ones(1, size, past + size, dtype=torch.bool, device=device).tril(past)


def window_mask(
    size: int,
    window: int,
    past: int = 0,
    *,
    sinks: int = 0,
    device: torch.device | None = None,
) -> Tensor:
    """-> (1, T, S)

    True where query and key are less than `window` positions apart, where S = past + T, and at the first
    `sinks` keys, which every query may attend to (attention sinks, Xiao et al. 2024).
    """
    if window < 1 or sinks < 0:
        raise wrong("window, sinks", f"({window}, {sinks})", "at least 1, and at least 0")
    query_T1 = torch.arange(past, past + size, device=device).unsqueeze(1)
    key_S = torch.arange(past + size, device=device)
    return (((query_T1 - key_S).abs() < window) | (key_S < sinks)).unsqueeze(0)
