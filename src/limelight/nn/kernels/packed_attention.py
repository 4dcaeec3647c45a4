"""Attention between packed tokens of short sequences: what a training step on a CPU mostly computes."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from limelight.nn.dropout import kept
from limelight.nn.kernels.packing import Packing

SHORT = 64  # up to here weights that are written down cost no more than torch's fused kernel


def suits(packing: Packing, memory: Packing, *, causal: bool, dropout: float) -> bool:
    """Whether `attend_packed` may and should do it."""
    if (
        torch.compiler.is_compiling()
    ):  # its own backward pass cannot be compiled, and what torch fuses is as fast
        return False
    if packing.batch != memory.batch or packing.some_empty or memory.some_empty:
        return False
    if causal and not (packing is memory and packing.trailing):
        return False
    short = max(packing.length, memory.length) <= SHORT
    return packing.mask.device.type == "cpu" and (short or dropout > 0)


def attend_packed(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    packing: Packing,
    memory: Packing,
    heads: int,
    *,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """(N, D), (M, D), (M, D) -> (N, D)

    softmax(QKᵀ/√K)V in each head, with the values and gradients of `attend` on padded tensors.

    Heads go from packed rows to the (B·H, T, K) that is multiplied, and back, in one copy each; the mask
    is added by the product that makes the scores; nothing in between is kept that the slopes do not need.
    """
    with torch.autocast("cpu", enabled=False):  # as precise as what came in
        return _Packed.apply(queries, keys, values, packing, memory, heads, causal, dropout)  # type: ignore[no-untyped-call]


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        packing: Packing,
        memory: Packing,
        heads: int,
        causal: bool,
        dropout: float,
    ) -> Tensor:
        here, there = packing.heads(heads), memory.heads(heads)
        width = queries.shape[1] // heads
        rows = packing.batch * heads
        q_bTK = queries.reshape(-1, width).index_select(0, here.spread).view(rows, packing.length, width)
        k_bSK, v_bSK = (
            x.reshape(-1, width).index_select(0, there.spread).view(rows, memory.length, width)
            for x in (keys, values)
        )
        hidden = there.hidden.to(q_bTK.dtype)
        if causal:  # which hides the padding, too: it comes after every token that is taken
            hidden = hidden.new_full((packing.length, memory.length), -math.inf).triu(1)
        weights_bTS = torch.baddbmm(hidden, q_bTK, k_bSK.mT, alpha=1 / math.sqrt(width)).softmax(-1)
        keep_bTS = kept(weights_bTS, dropout) if dropout else None
        dropped_bTS = weights_bTS if keep_bTS is None else weights_bTS * keep_bTS
        context.save_for_backward(
            q_bTK, k_bSK, v_bSK, weights_bTS, keep_bTS, dropped_bTS, here.gather, there.gather
        )
        return torch.bmm(dropped_bTS, v_bSK).flatten(0, 1).index_select(0, here.gather).view_as(queries)

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast("cpu", enabled=False):
            return *_slopes(slope, *context.saved_tensors), None, None, None, None, None


def _slopes(
    slope: Tensor,
    q_bTK: Tensor,
    k_bSK: Tensor,
    v_bSK: Tensor,
    weights_bTS: Tensor,
    keep_bTS: Tensor | None,
    dropped_bTS: Tensor,
    here: Tensor,
    there: Tensor,
) -> list[Tensor]:
    """Of queries, keys and values, packed."""
    width = q_bTK.shape[-1]
    # Padding has no slope: it stays zero.
    slope_bTK = torch.zeros_like(q_bTK)
    slope_bTK.flatten(0, 1).index_copy_(0, here, slope.reshape(-1, width))
    of_values = torch.bmm(dropped_bTS.mT, slope_bTK)
    of_weights = torch.bmm(slope_bTK, v_bSK.mT)
    if keep_bTS is not None:
        of_weights.mul_(keep_bTS)
    of_scores = torch._softmax_backward_data(of_weights, weights_bTS, -1, weights_bTS.dtype)
    of_queries = torch.bmm(of_scores.div_(math.sqrt(width)), k_bSK)
    of_keys = torch.bmm(of_scores.mT, q_bTK)
    return [
        of.flatten(0, 1).index_select(0, rows).view(-1, slope.shape[1])
        for of, rows in ((of_queries, here), (of_keys, there), (of_values, there))
    ]
