"""How surprised a model is by what really came."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from limelight.errors import wrong


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """(N, V), (N) -> (), ()

    The sum of −log p(target), and how many targets are the most likely token. With `smoothing` ε the target
    has the share 1 − ε of the truth and every token ε/V (Szegedy et al. 2016, section 7).

    Values and gradients are those of F.cross_entropy(reduction="sum"). With smoothing over a large vocabulary
    it takes half the time, because the probabilities are computed once and become the gradient.
    """
    if logits.dim() != 2 or targets.shape != logits.shape[:1]:
        raise wrong("targets", f"of shape {tuple(targets.shape)}", f"one a row of {tuple(logits.shape)}")
    return _CrossEntropy.apply(logits, targets, smoothing)  # type: ignore[no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        top_N, best_N = logits.max(-1)
        p_NV = logits.softmax(-1)
        # log Σ exp(logits), by the likeliest token: its probability is at least 1/V, and has a logarithm.
        norm_N = top_N - p_NV.gather(1, best_N.unsqueeze(1)).squeeze(1).log()
        truth_N = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
        if smoothing:
            truth_N = torch.lerp(truth_N, logits.mean(-1), smoothing)
        context.save_for_backward(p_NV, targets)
        context.smoothing = smoothing
        right = (best_N == targets).sum()
        context.mark_non_differentiable(right)
        return (norm_N - truth_N).sum(), right

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        p_NV, targets = context.saved_tensors
        smoothing, size = context.smoothing, p_NV.shape[1]
        gradient_NV = p_NV.sub(smoothing / size) if smoothing else p_NV.clone()
        gradient_NV[torch.arange(len(targets), device=targets.device), targets] -= 1 - smoothing
        return gradient_NV.mul_(slope), None, None
