"""Layer norm and RMS norm."""

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


NORMS: dict[str, type[nn.LayerNorm] | type[RMSNorm]] = {
    "post": nn.LayerNorm,
    "pre": nn.LayerNorm,
    "post-rms": RMSNorm,
    "pre-rms": RMSNorm,
}


def split_norm(norm: str) -> tuple[str, type[nn.LayerNorm] | type[RMSNorm]]:
    """The place of the norm and its class: "pre-rms" -> ("pre", RMSNorm); "pre" is a layer norm."""
    if norm not in NORMS:
        raise wrong("norm", repr(norm), "'post', 'pre', 'post-rms' or 'pre-rms'")
    return norm.removesuffix("-rms"), NORMS[norm]
