"""Ablation: sub-layers whose weights are set to zero, and what is left of the input then."""

import torch
from torch import Tensor, nn

from limelight.check.instruments.parts import linear_parameters


def zero_sublayers(model: nn.Module, which: str, hidden: set[int]) -> None:
    """Set the weights of "all" sub-layers, of "attention", or of the "feed-forward" network to zero.

    The feed-forward network is recognised by its hidden width, one of `hidden`.
    """
    with torch.no_grad():
        for _, p in linear_parameters(model):
            is_feed_forward = bool(hidden & set(p.shape))
            if which == "all" or (which == "feed-forward") == is_feed_forward:
                p.zero_()


def is_passed_through(out: Tensor, x: Tensor) -> bool:
    """Whether each position of the output is that of the input, shifted and scaled at most."""
    a = out - out.mean(-1, keepdim=True)
    b = x - x.mean(-1, keepdim=True)
    similarity = torch.nn.functional.cosine_similarity(a, b, dim=-1)
    return bool((similarity > 0.99).all())


def is_normalised(out: Tensor) -> bool:
    """Whether each position has a standard deviation of 1 (LayerNorm), or a mean square of 1 (RMSNorm)."""
    sizes = out.std(-1, correction=0), out.square().mean(-1).sqrt()
    return any(bool(torch.allclose(size, torch.ones_like(size), atol=0.05)) for size in sizes)
