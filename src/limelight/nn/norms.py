"""Layer norm and RMS norm."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.validation import check_axes, check_size


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · w: a layer norm without mean and bias (Zhang and Sennrich 2019, equation 4)."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.width, self.epsilon = check_size("width", width), epsilon
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        check_axes("x", x, "(..., D)", self.width)
        return x * (x.square().mean(-1, keepdim=True) + self.epsilon).rsqrt() * self.weight

    def extra_repr(self) -> str:
        """The size, for `print(module)`."""
        return f"{self.width}"


AnyNorm = nn.LayerNorm | RMSNorm
NORMS: dict[str, type[nn.LayerNorm] | type[RMSNorm]] = {
    "post": nn.LayerNorm,
    "pre": nn.LayerNorm,
    "post-rms": RMSNorm,
    "pre-rms": RMSNorm,
}


def split_norm(norm: str, epsilon: float | None = None) -> tuple[str, Callable[[int], AnyNorm]]:
    """The place of the norm, and a function that makes one: "pre-rms" -> "pre", RMSNorm.

    Without `epsilon`, each class has its own default.
    """
    if norm not in NORMS:
        raise wrong("norm", repr(norm), "'post', 'pre', 'post-rms' or 'pre-rms'")
    kind = NORMS[norm]
    return norm.removesuffix("-rms"), kind if epsilon is None else lambda width: kind(width, epsilon)
