"""Attention between packed tokens of short sequences: most of the time of a training step on a CPU."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import GradientEdge, get_gradient_edge

from limelight.nn.dropout import keep_mask
from limelight.nn.kernels.packing import Packing

SHORT = 64  # up to this length, storing the attention weights costs no more than torch's fused kernel


def supports(packing: Packing, memory: Packing, *, causal: bool, dropout: float) -> bool:
    """Whether `attend_packed` can compute this attention and is expected to be the fastest way."""
    if torch.compiler.is_compiling():  # its backward pass cannot be compiled; torch's fused kernel is as fast
        return False
    if packing.batch != memory.batch or packing.has_empty_sequence or memory.has_empty_sequence:
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
    """(N, D), (U, D), (U, D) -> (N, D)

    softmax(QKᵀ/√K)V in each head, with the values and gradients of `attend` on padded tensors.

    Heads are copied once from the packed rows to the (G, T, K) tensors that are multiplied, and once back.
    The mask is added in the same call that computes the scores. Only what the gradients need is kept.
    """
    with torch.autocast("cpu", enabled=False):  # the precision of the inputs
        return _PackedAttention.apply(queries, keys, values, packing, memory, heads, causal, dropout)  # type: ignore[no-untyped-call]


class _PackedAttention(torch.autograd.Function):
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
        query_rows, key_rows = packing.heads(heads), memory.heads(heads)
        width = queries.shape[1] // heads
        rows = packing.batch * heads
        q_GTK = queries.reshape(-1, width).index_select(0, query_rows.spread)
        q_GTK = q_GTK.view(rows, packing.length, width)
        k_GSK, v_GSK = (
            x.reshape(-1, width).index_select(0, key_rows.spread).view(rows, memory.length, width)
            for x in (keys, values)
        )
        bias = key_rows.bias.to(q_GTK.dtype)
        if causal:  # this hides the padding, too: it comes after every real token
            bias = bias.new_full((packing.length, memory.length), -math.inf).triu(1)
        weights_GTS, scores_edge = _softmax_of_scores(q_GTK, k_GSK, bias)
        keep_GTS = keep_mask(weights_GTS, dropout) if dropout else None
        dropped_GTS = weights_GTS if keep_GTS is None else weights_GTS * keep_GTS
        context.save_for_backward(
            q_GTK, k_GSK, v_GSK, weights_GTS, keep_GTS, dropped_GTS, query_rows.gather, key_rows.gather
        )
        context.scores_edge = scores_edge
        return torch.bmm(dropped_GTS, v_GSK).flatten(0, 1).index_select(0, query_rows.gather).view_as(queries)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast("cpu", enabled=False):
            gradients = _gradients(gradient, context.scores_edge, *context.saved_tensors)
        return *gradients, None, None, None, None, None


def _softmax_of_scores(q_GTK: Tensor, k_GSK: Tensor, bias: Tensor) -> tuple[Tensor, GradientEdge | None]:
    """(G, T, K), (G, S, K), (G|1, T|1, S) -> (G, T, S)

    The weights, and the place in their graph where the gradient of the scores arrives: torch computes it from
    the weights alone. The scores are not kept.
    """
    scale = 1 / math.sqrt(q_GTK.shape[-1])
    with torch.enable_grad():  # the bias needs no gradient; it makes torch record the softmax
        scores_GTS = torch.baddbmm(bias.detach().requires_grad_(), q_GTK, k_GSK.mT, alpha=scale)
        edge = get_gradient_edge(scores_GTS) if scores_GTS.requires_grad else None  # None: inference mode
        return scores_GTS.softmax(-1), edge


def _gradients(
    gradient: Tensor,
    scores_edge: GradientEdge,
    q_GTK: Tensor,
    k_GSK: Tensor,
    v_GSK: Tensor,
    weights_GTS: Tensor,
    keep_GTS: Tensor | None,
    dropped_GTS: Tensor,
    query_gather: Tensor,
    key_gather: Tensor,
) -> list[Tensor]:
    """The gradients of queries, keys and values, packed."""
    width = q_GTK.shape[-1]
    # Padding has no gradient: it stays zero.
    grad_GTK = torch.zeros_like(q_GTK)
    grad_GTK.flatten(0, 1).index_copy_(0, query_gather, gradient.reshape(-1, width))
    grad_values_GSK = torch.bmm(dropped_GTS.mT, grad_GTK)
    grad_weights_GTS = torch.bmm(grad_GTK, v_GSK.mT)
    if keep_GTS is not None:
        grad_weights_GTS.mul_(keep_GTS)
    # The graph is retained because a caller may run the backward pass twice.
    (grad_scores_GTS,) = torch.autograd.grad(weights_GTS, scores_edge, grad_weights_GTS, retain_graph=True)
    grad_queries_GTK = torch.bmm(grad_scores_GTS.div_(math.sqrt(width)), k_GSK)
    grad_keys_GSK = torch.bmm(grad_scores_GTS.mT, q_GTK)
    return [
        grad.flatten(0, 1).index_select(0, gather).view(-1, gradient.shape[1])
        for grad, gather in (
            (grad_queries_GTK, query_gather),
            (grad_keys_GSK, key_gather),
            (grad_values_GSK, key_gather),
        )
    ]
