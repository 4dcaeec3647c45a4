"""The attention weights of kernels of torch that do not return them, recomputed from their arguments."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SCALED_DOT_PRODUCT = "_scaled_dot_product"  # the names of these kernels start with this
FAST_PATHS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
PADDING_MASK = 1  # mask_type of the fast paths; 0 is a mask of queries and keys, 2 one of both


def arguments_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operation by name, with its defaults."""
    declared = func._schema.arguments
    values = {one.name: one.default_value for one in declared if one.has_default_value()}
    return values | dict(zip((one.name for one in declared), args, strict=False)) | dict(kwargs)


def scaled_dot_product(given: Mapping[str, Any]) -> Tensor:
    """-> (..., T, S), the weights of scaled dot-product attention"""
    mask = given.get("attn_mask")
    mask = given.get("attn_bias") if mask is None else mask
    query, key = given["query"], given["key"]
    return _weights(query, key, mask, causal=given.get("is_causal", False), scale=given.get("scale"))


def repeat_heads(keys: Tensor, heads: int) -> Tensor:
    """(B, h, S, K) -> (B, H, S, K), for kernels with fewer heads of keys than of queries"""
    if keys.dim() < 3 or keys.shape[-3] == heads:
        return keys
    return keys.repeat_interleave(heads // keys.shape[-3], -3)


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, *, causal: bool, scale: float | None) -> Tensor:
    """(..., T, K), (..., S, K), (..., T, S) -> (..., T, S)"""
    if query.dim() > 2:
        key = repeat_heads(key, query.shape[-3])
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=key.device).triu(1)
        scores.masked_fill_(future, -math.inf)
    if mask is not None and mask.dtype == torch.bool:
        scores.masked_fill_(~mask, -math.inf)
    elif mask is not None:
        scores += mask
    weights = torch.softmax(scores, -1, out=scores)  # new memory would take as long as the softmax
    return weights if mask is None else weights.nan_to_num_(0.0)  # rows without keys


def fast_path(given: Mapping[str, Any], padded_length: int | None) -> Tensor:
    """-> (B, H, T, S), the weights of the fast path of nn.MultiheadAttention or nn.TransformerEncoderLayer

    The nested tensors of an encoder with padding have no padded queries: their weights are zero.
    """
    x = given["src"] if "src" in given else given["query"]
    mask, heads = given.get("mask"), given["num_heads"] if "num_heads" in given else given["num_head"]
    lengths = None
    if x.is_nested:
        lengths = [len(one) for one in x.unbind()]
        x = _padded(x, padded_length)
    keys = x if "src" in given or given["key"] is given["query"] or lengths else given["key"]
    if given.get("norm_first"):
        norm = given["norm_weight_1"], given["norm_bias_1"], given["eps"]
        keys = x = F.layer_norm(x, x.shape[-1:], *norm)
    width = x.shape[-1]
    weight, bias = given["qkv_weight"], given["qkv_bias"]
    own, other = slice(width), slice(width, 2 * width)
    q, k = F.linear(x, weight[own], bias[own]), F.linear(keys, weight[other], bias[other])
    q_BHTK, k_BHSK = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in (q, k))
    if lengths is not None:
        real = torch.arange(x.shape[1], device=x.device) < torch.tensor(lengths, device=x.device)[:, None]
        weights = _weights(q_BHTK, k_BHSK, real[:, None, None], causal=False, scale=None)
        return weights * real[:, None, :, None]
    return _weights(q_BHTK, k_BHSK, _as_allowed(mask, given.get("mask_type")), causal=False, scale=None)


def _padded(nested: Tensor, length: int | None) -> Tensor:
    """-> (B, T, D), with zeros"""
    padded = torch.nested.to_padded_tensor(nested, 0.0)
    return padded if length is None else F.pad(padded, (0, 0, 0, max(0, length - padded.shape[1])))


def _as_allowed(mask: Tensor | None, kind: int | None) -> Tensor | None:
    """(T, S), (B, S) or (B, H, T, S), True or -inf where masked -> (…, T, S), True where it may attend"""
    if mask is None:
        return None
    mask = mask[:, None, None] if kind == PADDING_MASK else mask
    return ~mask if mask.dtype == torch.bool else mask
