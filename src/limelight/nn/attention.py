"""The mathematics of attention: pure functions of tensors with any leading axes."""

import math
from collections.abc import Callable
from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor

from limelight.errors import wrong
from limelight.nn.dropout import draw
from limelight.nn.kernels.recompute import recomputed
from limelight.nn.masks import causal_mask, hide_not_finite
from limelight.nn.validation import check_dropout, check_floating, check_mask

Score = Callable[[Tensor, Tensor], Tensor]


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """(..., T, K), (..., S, K) -> (..., T, S)

    Dot-product scores QKᵀ.
    """
    return queries @ keys.transpose(-2, -1)


def scaled_dot(queries: Tensor, keys: Tensor) -> Tensor:
    """(..., T, K), (..., S, K) -> (..., T, S)

    QKᵀ/√K. The scale keeps the variance of the scores independent of K (Vaswani et al. 2017, section 3.2.1).
    """
    # The queries are scaled because there are fewer of them than scores.
    return dot(queries / math.sqrt(queries.shape[-1]), keys)


def additive(queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    """(..., T, A), (..., S, A), (A) -> (..., T, S)

    vᵀ tanh(q + k) for projected queries and keys (Bahdanau et al. 2015, A.1.2).
    """
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ vector


def gaussian(queries: Tensor, keys: Tensor, width: float = 1.0) -> Tensor:
    """(..., T, K), (..., S, K) -> (..., T, S)

    −‖q − k‖² / 2w². Attention with these scores is Nadaraya–Watson kernel regression.
    """
    return -(queries.unsqueeze(-2) - keys.unsqueeze(-3)).square().sum(-1) / (2 * width**2)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """(..., T, S), (..., T|1, S) -> (..., T, S)

    Softmax over the keys that may be attended to; a row without such a key is exactly zero.
    """
    check_floating("scores", scores)
    if mask is None:
        return scores.softmax(-1)
    check_mask("mask", mask, tuple(scores.shape), "(..., T, S)")
    has_key = mask.any(-1, keepdim=True)
    # A row of -inf only would give NaN, also in its gradient: its scores are zero, and its weights are too.
    masked_score = torch.zeros_like(has_key, dtype=scores.dtype).masked_fill(has_key, -math.inf)
    return torch.where(mask, scores, masked_score).softmax(-1).masked_fill(~has_key, 0.0)


def attention_weights(
    queries: Tensor,
    keys: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
    into: Tensor | None = None,
) -> Tensor:
    """(..., T, K), (..., S, K), (..., T|1, S) -> (..., T, S)

    The attention weights softmax(QKᵀ/√K + bias) (Vaswani et al. 2017, equation 1). If no gradient is needed,
    they are written into the tensor `into`, if given.
    """
    _check(queries, keys, mask)
    allowed = _allowed(queries, keys, mask, causal)
    if not (torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad)):
        with suppress(RuntimeError):  # forward-mode derivatives and vmap do not support writing in place
            return _weights_in_place(queries, keys, allowed, bias, into)
    scores = scaled_dot(queries, hide_not_finite(keys, mask))
    scores = scores if bias is None else scores + bias.to(scores.dtype)
    if mask is None and allowed is not None:  # only causal: every query has a key
        return scores.masked_fill(~allowed, -math.inf).softmax(-1)
    return masked_softmax(scores, allowed)


def _weights_in_place(
    queries: Tensor, keys: Tensor, allowed: Tensor | None, bias: Tensor | None, into: Tensor | None
) -> Tensor:
    """(..., T, K), (..., S, K), (..., T|1, S), (..., T, S) -> (..., T, S)

    The softmax overwrites the scores: allocating new memory takes as long as the softmax.
    """
    scaled = queries / math.sqrt(queries.shape[-1])
    scores = torch.matmul(scaled, keys.transpose(-2, -1), out=into)
    if bias is not None:
        scores += bias
    if allowed is not None:
        scores.masked_fill_(~allowed, -math.inf)
    torch.softmax(scores, -1, out=scores)
    if allowed is not None:
        scores.masked_fill_(~allowed.any(-1, keepdim=True), 0.0)
    return scores


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """(..., T, K), (..., S, K), (..., S, W), (..., T|1, S) -> (..., T, W)

    softmax(QKᵀ/√K + bias)V with torch's fused kernel, which never stores the T × S weights. Values and
    gradients are those of `attention_weights(...) @ values`. On CPUs the fused kernel has no dropout, so with
    dropout the weights are computed. `causal` aligns the last query with the last key; with a mask, a bias or
    fewer queries than keys, it becomes a T × S mask. Values at positions that no query may attend to have no
    effect.
    """
    _check(queries, keys, mask)
    _check_type("values", values, queries)
    if values.shape[:-1] != keys.shape[:-1]:
        raise wrong("values", f"of shape {tuple(values.shape)}", f"{tuple(keys.shape[:-1])} + (W)")
    keys, values = hide_not_finite(keys, mask), hide_not_finite(values, mask)
    if check_dropout(dropout) and queries.device.type == "cpu":
        weights = attention_weights(queries, keys, mask, causal=causal, bias=bias)
        drop = draw(weights, dropout)
        dropped = drop(weights)
        with recomputed(dropped, lambda: drop(weights)):
            return dropped @ values
    if causal and mask is None and bias is None and queries.shape[-2] == keys.shape[-2]:
        return _fused(queries, keys, values, None, dropout, causal=True)
    allowed = _allowed(queries, keys, mask, causal)
    bias = None if bias is None else bias.to(queries.dtype)
    if allowed is None:
        return _fused(queries, keys, values, bias, dropout)
    # Some backends of the kernel give NaN for a row that may attend to nothing: here such a row attends to
    # everything, and its output is set to zero.
    has_key = allowed.any(-1, keepdim=True)
    allowed = allowed | ~has_key
    added = allowed if bias is None else torch.where(allowed, bias, -math.inf)
    return _fused(queries, keys, values, added, dropout).masked_fill(~has_key, 0.0)


def pool(query: Tensor, keys: Tensor, values: Tensor, score: Score, mask: Tensor | None = None) -> Tensor:
    """(..., T, Q), (..., S, K), (..., S, W), (..., T|1, S) -> (..., T, W)

    The mean of `values`, weighted by the softmax of any score function that maps queries and keys to
    (..., T, S): `dot`, `scaled_dot`, `gaussian`, `partial(additive, vector=v)`, the method `score` of
    `AdditiveAttention`, or a function of your own.
    """
    return masked_softmax(score(query, hide_not_finite(keys, mask)), mask) @ hide_not_finite(values, mask)


def _check(queries: Tensor, keys: Tensor, mask: Tensor | None) -> None:
    check_floating("queries", queries)
    if queries.dim() < 2:
        raise wrong("queries", f"of shape {tuple(queries.shape)}", "(..., T, K)")
    _check_type("keys", keys, queries)
    lead, width = queries.shape[:-2], queries.shape[-1]
    if keys.dim() != queries.dim() or keys.shape[:-2] != lead or keys.shape[-1] != width:
        allowed = f"({', '.join(map(str, (*lead, 'S', width)))}), which fits the queries"
        raise wrong("keys", f"of shape {tuple(keys.shape)}", allowed)
    if mask is not None:
        check_mask("mask", mask, (*lead, queries.shape[-2], keys.shape[-2]), "(..., T, S)")


def _check_type(argument: str, value: Tensor, queries: Tensor) -> None:
    if value.dtype != queries.dtype:
        raise wrong(argument, f"of type {value.dtype}", f"{queries.dtype}, the type of the queries")


def _allowed(queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    """The mask combined with the causal mask; None if every key may be attended to."""
    size = queries.shape[-2]
    past = keys.shape[-2] - size
    if not causal:
        return mask
    if past < 0:
        raise wrong("keys", f"{keys.shape[-2]} long", f"at least {size} for causal queries")
    if not torch.compiler.is_exporting() and size == 1:  # the last query may attend to every key
        return mask
    causal_1TS = causal_mask(size, past, device=queries.device)
    past_and_self = causal_1TS.reshape((1,) * (queries.dim() - 2) + causal_1TS.shape[1:])
    return past_and_self if mask is None else mask & past_and_self


def _fused(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool = False,
) -> Tensor:
    """F.scaled_dot_product_attention with four axes: its memory-efficient kernels need them."""
    lead = (1,) * (4 - queries.dim())
    queries, keys, values = (x.reshape(lead + x.shape) for x in (queries, keys, values))
    if mask is not None:
        mask = mask.reshape(lead + mask.shape)
    out = F.scaled_dot_product_attention(queries, keys, values, mask, dropout_p=dropout, is_causal=causal)
    return out.reshape(out.shape[len(lead) :])
