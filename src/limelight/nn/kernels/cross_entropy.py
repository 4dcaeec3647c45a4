"""The cross-entropy of an output layer, with its gradient."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from limelight.errors import wrong
from limelight.nn.kernels.linear import product


def cross_entropy(
    x: Tensor, output: nn.Linear, targets: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """(N, D), (N) -> (), ()

    For logits = output(x): the sum of −log p(target), and the number of targets that are the most likely
    token. With label smoothing ε, the target has probability 1 − ε, and ε is spread evenly over all V tokens
    (Szegedy et al. 2016, section 7).

    Values and gradients are those of F.cross_entropy(output(x), targets, reduction="sum"), but it is faster
    for a large vocabulary: only the two matrix products of the backward pass read the N × V probabilities
    again; targets and smoothing are added to the gradients as tensors with N or V rows.
    """
    if x.dim() != 2 or targets.shape != x.shape[:1]:
        raise wrong("targets", f"of shape {tuple(targets.shape)}", f"one per row of {tuple(x.shape)}")
    return _CrossEntropy.apply(x, output.weight, output.bias, targets, smoothing)  # type: ignore[no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        # The sum of a thousand losses needs more than half precision.
        logits_NV = product(x, weight, bias).to(torch.promote_types(x.dtype, torch.float32))
        best_N = logits_NV.argmax(-1)
        top_N, target_N = logits_NV.gather(1, torch.stack((best_N, targets), 1)).unbind(1)
        p_NV = torch.softmax(logits_NV, -1, out=logits_NV)  # in place: the logits are the largest tensor
        if smoothing:
            mean_N = x @ weight.mean(0) + (0.0 if bias is None else bias.mean())
            target_N = torch.lerp(target_N, mean_N.to(p_NV.dtype), smoothing)
        # log Σ exp(logits), computed from the most likely token: its probability is at least 1/V, never 0.
        norm_N = top_N - p_NV.gather(1, best_N.unsqueeze(1)).squeeze(1).log()
        context.save_for_backward(x, weight, p_NV, targets)
        context.smoothing, context.biased = smoothing, bias is not None
        right = (best_N == targets).sum()
        context.mark_non_differentiable(right)
        return (norm_N - target_N).sum(), right

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, p_NV, targets = context.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            grad_x, grad_weight, grad_bias = _gradients(x, weight, p_NV, targets, context.smoothing)
        return (
            grad_x.mul_(gradient),
            grad_weight.mul_(gradient),
            grad_bias.mul_(gradient) if context.biased else None,
            None,
            None,
        )


def _gradients(
    x: Tensor, weight: Tensor, p_NV: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(N, D), (V, D), (N, V), (N) -> (N, D), (V, D), (V)

    The gradients of x, weight and bias. The gradient of the logits is p − (1 − ε) [target] − ε/V; its three
    terms are multiplied separately.
    """
    x, p_NV = x.to(weight.dtype), p_NV.to(weight.dtype)
    share, even = 1 - smoothing, smoothing / len(weight)
    grad_ND = product(p_NV, weight.T).sub_(weight.index_select(0, targets), alpha=share)
    grad_VD = product(p_NV.T, x.T).index_add_(0, targets, x, alpha=-share)
    grad_V = p_NV.sum(0).index_add_(0, targets, x.new_ones(len(x)), alpha=-share)
    if smoothing:
        grad_ND.sub_(weight.sum(0), alpha=even)
        grad_VD.sub_(x.sum(0), alpha=even)
        grad_V.sub_(even * len(x))
    return grad_ND, grad_VD, grad_V
