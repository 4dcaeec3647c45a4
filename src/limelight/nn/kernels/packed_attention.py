"""Attention between packed tokens of short sequences: most of the time of a training step on a CPU."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from limelight.nn.dropout import keep_mask
from limelight.nn.kernels.packing import HeadRows, Packing

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
    The mask is added in the same call that computes the scores. Only what the gradients need is kept: the two
    products have their own backward pass, and the softmax between them has torch's.
    """
    with torch.autocast("cpu", enabled=False):  # the precision of the inputs
        query_rows, key_rows = packing.heads(heads), memory.heads(heads)
        scores_GTS = _Scores.apply(queries, keys, query_rows, key_rows, causal)  # type: ignore[no-untyped-call]
        keep_GTS = keep_mask(scores_GTS, dropout) if dropout else None
        return _Mixture.apply(scores_GTS.softmax(-1), values, keep_GTS, query_rows, key_rows)  # type: ignore[no-untyped-call]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, queries: Tensor, keys: Tensor, query_rows: HeadRows, key_rows: HeadRows, causal: bool
    ) -> Tensor:
        """(N, D), (U, D) -> (G, T, S)"""
        q_GTK, k_GSK = _pad(queries, query_rows), _pad(keys, key_rows)
        bias = key_rows.bias.to(q_GTK.dtype)
        if causal:  # this hides the padding, too: it comes after every real token
            bias = bias.new_full((q_GTK.shape[1], k_GSK.shape[1]), -math.inf).triu(1)
        context.save_for_backward(q_GTK, k_GSK)
        context.rows = query_rows, key_rows
        return torch.baddbmm(bias, q_GTK, k_GSK.mT, alpha=1 / math.sqrt(q_GTK.shape[-1]))

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad_GTS: Tensor) -> tuple[Tensor | None, ...]:
        q_GTK, k_GSK = context.saved_tensors
        query_rows, key_rows = context.rows
        with torch.autocast("cpu", enabled=False):
            grad_GTS = grad_GTS / math.sqrt(q_GTK.shape[-1])
            grad_queries = _pack(torch.bmm(grad_GTS, k_GSK), query_rows)
            grad_keys = _pack(torch.bmm(grad_GTS.mT, q_GTK), key_rows)
        return grad_queries, grad_keys, None, None, None


class _Mixture(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        weights_GTS: Tensor,
        values: Tensor,
        keep_GTS: Tensor | None,
        query_rows: HeadRows,
        key_rows: HeadRows,
    ) -> Tensor:
        """(G, T, S), (U, D), (G, T, S) -> (N, D)"""
        v_GSK = _pad(values, key_rows)
        dropped_GTS = weights_GTS if keep_GTS is None else weights_GTS * keep_GTS
        context.save_for_backward(v_GSK, keep_GTS, dropped_GTS)
        context.rows = query_rows, key_rows
        return _pack(torch.bmm(dropped_GTS, v_GSK), query_rows)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        v_GSK, keep_GTS, dropped_GTS = context.saved_tensors
        query_rows, key_rows = context.rows
        with torch.autocast("cpu", enabled=False):
            # Padding has no gradient: it stays zero.
            grad_GTK = gradient.new_zeros(*dropped_GTS.shape[:2], v_GSK.shape[-1])
            packed = gradient.reshape(-1, v_GSK.shape[-1])
            grad_GTK.flatten(0, 1).index_copy_(0, query_rows.gather, packed)
            grad_values = _pack(torch.bmm(dropped_GTS.mT, grad_GTK), key_rows)
            grad_weights_GTS = torch.bmm(grad_GTK, v_GSK.mT)
            if keep_GTS is not None:
                grad_weights_GTS.mul_(keep_GTS)
        return grad_weights_GTS, grad_values, None, None, None


def _pad(packed: Tensor, rows: HeadRows) -> Tensor:
    """(N, D) -> (G, T, K)

    Padding repeats a real token.
    """
    groups, _, length = rows.bias.shape
    width = packed.shape[1] // rows.heads
    return packed.reshape(-1, width).index_select(0, rows.spread).view(groups, length, width)


def _pack(padded_GTK: Tensor, rows: HeadRows) -> Tensor:
    """(G, T, K) -> (N, D)"""
    return padded_GTK.flatten(0, 1).index_select(0, rows.gather).view(-1, rows.heads * padded_GTK.shape[-1])
