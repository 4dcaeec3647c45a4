"""How surprised a model is by what really came."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from limelight.errors import wrong


def cross_entropy(
    x: Tensor, output: nn.Linear, targets: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """(N, D), (N) -> (), ()

    With logits = output(x): the sum of −log p(target), and how many targets are the most likely token. With
    `smoothing` ε the target has the share 1 − ε of the truth and every token ε/V (Szegedy et al. 2016,
    section 7).

    Values and gradients are those of F.cross_entropy(output(x), targets, reduction="sum"). It is faster over
    a large vocabulary: of all that is as large as the logits, only the two products that make the gradients
    read the probabilities again; what targets and smoothing add to the gradients has N or V rows.
    """
    if x.dim() != 2 or targets.shape != x.shape[:1]:
        raise wrong("targets", f"of shape {tuple(targets.shape)}", f"one a row of {tuple(x.shape)}")
    return _CrossEntropy.apply(x, output.weight, output.bias, targets, smoothing)  # type: ignore[no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        # Sums of a thousand losses need more than half precision, whatever the product had.
        logits_NV = F.linear(x, weight, bias).to(torch.promote_types(x.dtype, torch.float32))
        best_N = logits_NV.argmax(-1)
        top_N, truth_N = logits_NV.gather(1, torch.stack((best_N, targets), 1)).unbind(1)
        p_NV = torch.softmax(logits_NV, -1, out=logits_NV)  # in their place: nothing else is as large
        if smoothing:
            even_N = x @ weight.mean(0) + (0.0 if bias is None else bias.mean())
            truth_N = torch.lerp(truth_N, even_N.to(p_NV.dtype), smoothing)
        # log Σ exp(logits), by the likeliest token: its probability is at least 1/V, and has a logarithm.
        norm_N = top_N - p_NV.gather(1, best_N.unsqueeze(1)).squeeze(1).log()
        context.save_for_backward(x, weight, p_NV, targets)
        context.smoothing, context.biased = smoothing, bias is not None
        right = (best_N == targets).sum()
        context.mark_non_differentiable(right)
        return (norm_N - truth_N).sum(), right

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, p_NV, targets = context.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            of_x, of_weight, of_bias = _slopes(x, weight, p_NV, targets, context.smoothing)
        return (
            of_x.mul_(slope),
            of_weight.mul_(slope),
            of_bias.mul_(slope) if context.biased else None,
            None,
            None,
        )


def _slopes(
    x: Tensor, weight: Tensor, p_NV: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of x, weight and bias.

    The slope of the logits is p − (1 − ε) [target] − ε/V; its three terms are multiplied apart.
    """
    x, p_NV = x.to(weight.dtype), p_NV.to(weight.dtype)
    share, even = 1 - smoothing, smoothing / len(weight)
    of_x = (p_NV @ weight).sub_(weight.index_select(0, targets), alpha=share)
    of_weight = (p_NV.T @ x).index_add_(0, targets, x, alpha=-share)
    of_bias = p_NV.sum(0).index_add_(0, targets, x.new_ones(len(x)), alpha=-share)
    if smoothing:
        of_x.sub_(weight.sum(0), alpha=even)
        of_weight.sub_(x.sum(0), alpha=even)
        of_bias.sub_(even * len(x))
    return of_x, of_weight, of_bias
