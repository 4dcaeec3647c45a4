"""Conversion from and to other libraries."""

from limelight.bridge.torch_attention import projections
from limelight.bridge.torch_nn import from_torch, to_torch

__all__ = ["from_torch", "projections", "to_torch"]
