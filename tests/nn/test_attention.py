"""The pure functions, compared with loops that follow the formulas and with torch's kernel."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from support import DTYPES, EXACT, MANY, B, H, K, S, T, assert_same, gradients, must_fail, random_mask
from torch import Tensor

from limelight.nn import (
    AdditiveAttention,
    additive,
    attend,
    attention_weights,
    causal_mask,
    dot,
    gaussian,
    masked_softmax,
    padding_mask,
    pool,
    scaled_dot,
)

W = 13


def softmax_by_hand(scores: Tensor, mask: Tensor) -> Tensor:
    """Row by row, over the allowed keys only, in float64."""
    weights = torch.zeros(scores.shape, dtype=torch.float64)
    mask = mask.expand(scores.shape)
    for row in torch.cartesian_prod(*(torch.arange(size) for size in scores.shape[:-1])).tolist():
        allowed = [s for s in range(scores.shape[-1]) if mask[(*row, s)]]
        exponentials = [math.exp(scores[(*row, s)]) for s in allowed]
        for s, exponential in zip(allowed, exponentials, strict=True):
            weights[(*row, s)] = exponential / sum(exponentials)
    return weights


def check_masked_softmax(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    scores = torch.randn(B, T, S)
    mask = random_mask(B, T, S)
    mask[1, 2] = False
    weights = function(scores, mask)
    torch.testing.assert_close(weights.double(), softmax_by_hand(scores, mask), rtol=1e-6, atol=1e-6)
    assert weights[~mask].eq(0).all(), "a masked key has weight"


def test_masked_softmax_is_the_softmax_over_allowed_keys() -> None:
    check_masked_softmax(masked_softmax)
    must_fail(check_masked_softmax, lambda scores, mask: scores.softmax(-1))
    must_fail(check_masked_softmax, lambda scores, mask: scores.masked_fill(mask, -1e9).softmax(-1))
    must_fail(check_masked_softmax, lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1))
    must_fail(check_masked_softmax, lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1))


@DTYPES
def test_huge_masked_scores_have_no_weight(dtype: torch.dtype) -> None:
    scores = torch.tensor([[1e30, -1e30, 1e30, 0.0]], dtype=dtype)
    mask = torch.tensor([[False, True, False, True]])
    assert masked_softmax(scores, mask).tolist() == [[0.0, 0.0, 0.0, 1.0]]


@DTYPES
def test_very_low_scores_of_allowed_keys_still_get_all_weight(dtype: torch.dtype) -> None:
    scores = torch.tensor([[-1e30, 0.0, -1e30]], dtype=dtype)
    mask = torch.tensor([[True, False, True]])
    assert masked_softmax(scores, mask).tolist() == [[0.5, 0.0, 0.5]]


def test_the_mask_applies_to_a_single_causal_query() -> None:
    queries, keys, values = torch.randn(B, 1, K), torch.randn(B, S, K), torch.randn(B, S, W)
    mask = padding_mask([2, 1, 0], S)
    expected = attention_weights(queries, keys, mask) @ values
    torch.testing.assert_close(attend(queries, keys, values, mask, causal=True), expected)
    assert attention_weights(queries, keys, mask, causal=True)[~mask].eq(0).all()


def test_masked_softmax_takes_any_leading_axes() -> None:
    scores = torch.randn(2, 3, 5, 7, 11)
    mask = random_mask(2, 1, 5, 1, 11)
    expected = softmax_by_hand(scores, mask)
    torch.testing.assert_close(masked_softmax(scores, mask).double(), expected, rtol=1e-6, atol=1e-6)
    assert masked_softmax(torch.zeros(4)).tolist() == [0.25] * 4


def test_scores_equal_their_formulas() -> None:
    queries, keys, vector = torch.randn(B, T, K), torch.randn(B, S, K), torch.randn(K)
    for b in range(B):
        for t in range(T):
            for s in range(S):
                q, k = queries[b, t].double(), keys[b, s].double()
                expected: dict[Callable[[Tensor, Tensor], Tensor], float] = {
                    dot: float(q @ k),
                    scaled_dot: float(q @ k) / math.sqrt(K),
                    partial(gaussian, width=2.0): -float((q - k).pow(2).sum()) / 8.0,
                    partial(additive, vector=vector): float((q + k).tanh() @ vector.double()),
                }
                for score, value in expected.items():
                    assert score(queries, keys)[b, t, s] == pytest.approx(value, abs=1e-4)


def test_pooling_with_a_gaussian_is_kernel_regression() -> None:
    x, y = torch.linspace(0, 5, 23), torch.linspace(0, 5, 23).sin()
    at = torch.linspace(1, 4, 7)
    kernel = torch.exp(-((at[:, None] - x[None]) ** 2) / (2 * 0.3**2))
    nadaraya_watson = (kernel @ y) / kernel.sum(1)
    pooled = pool(at[:, None], x[:, None], y[:, None], partial(gaussian, width=0.3))
    torch.testing.assert_close(pooled[:, 0], nadaraya_watson)


def test_pooling_takes_any_score_and_respects_the_mask() -> None:
    queries, keys, values = torch.randn(B, T, K), torch.randn(B, S, K), torch.randn(B, S, W)
    mask = random_mask(B, T, S)
    expected = attention_weights(queries, keys, mask) @ values
    torch.testing.assert_close(pool(queries, keys, values, scaled_dot, mask), expected)
    pooled = pool(queries, keys, values, dot, mask)
    torch.testing.assert_close(pooled, masked_softmax(dot(queries, keys), mask) @ values)
    vector = torch.randn(K)
    pooled = pool(queries, keys, values, partial(additive, vector=vector), mask)
    torch.testing.assert_close(pooled, masked_softmax(additive(queries, keys, vector), mask) @ values)
    nothing = pool(queries, keys, values, lambda q, k: torch.zeros(B, T, S))
    torch.testing.assert_close(nothing, values.mean(1, keepdim=True).expand(B, T, W))
    attention = AdditiveAttention(K, W, 17)
    pooled = pool(queries, attention.project(values), values, attention.score, mask)
    torch.testing.assert_close(pooled, attention(queries, values, mask))


def check_scale(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """A query and two keys small enough to follow by hand: weights of 1/(1 + e^-1) and the rest."""
    queries, keys = torch.tensor([[2.0, 0.0, 0.0, 0.0]]), torch.tensor([[1.0, 0, 0, 0], [0.0, 1, 0, 0]])
    first = 1 / (1 + math.exp(-2.0 / math.sqrt(4)))
    torch.testing.assert_close(function(queries, keys), torch.tensor([[first, 1 - first]]))


def test_weights_are_scaled_by_the_root_of_the_width() -> None:
    check_scale(attention_weights)
    must_fail(check_scale, lambda q, k: dot(q, k).softmax(-1))
    must_fail(check_scale, lambda q, k: (dot(q, k) / q.shape[-1]).softmax(-1))
    must_fail(check_scale, lambda q, k: (dot(q, k) / math.sqrt(k.shape[-2])).softmax(-1))


MASKS: dict[str, Callable[[int, int], Tensor | None]] = {
    "no mask": lambda t, s: None,
    "padding": lambda t, s: padding_mask([s, 1, s // 2], s).unsqueeze(1),
    "any": lambda t, s: random_mask(B, 1, t, s),
    "every head its own": lambda t, s: random_mask(B, H, t, s),
}


@DTYPES
@pytest.mark.parametrize("keys_long", [S, MANY], ids=["few keys", "many keys"])
@pytest.mark.parametrize("mask_kind", MASKS)
@pytest.mark.parametrize("causal", [False, True], ids=["open", "causal"])
@pytest.mark.parametrize("square", [False, True], ids=["T<S", "T=S"])
def test_attend_equals_torchs_kernel(
    dtype: torch.dtype, keys_long: int, mask_kind: str, causal: bool, square: bool
) -> None:
    size = keys_long if square else T
    sizes = (size, keys_long, keys_long)
    q, k, v = (torch.randn(B, H, n, K, dtype=dtype, requires_grad=True) for n in sizes)
    mask = MASKS[mask_kind](size, keys_long)
    whole = torch.ones(1, 1, 1, 1, dtype=torch.bool) if mask is None else mask
    if causal:
        whole = whole & causal_mask(size, keys_long - size)[None]
    expected = F.scaled_dot_product_attention(q, k, v, whole.expand(B, H, size, keys_long))
    explicit = attention_weights(q, k, mask, causal=causal) @ v
    for got in (attend(q, k, v, mask, causal=causal), explicit):
        assert_same(got, expected)
        for ours, theirs in zip(gradients(got, q, k, v), gradients(expected, q, k, v), strict=True):
            assert_same(ours, theirs)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 1)])
@pytest.mark.parametrize("keys_long", [S, MANY], ids=["few keys", "many keys"])
def test_attend_takes_any_leading_axes(lead: tuple[int, ...], keys_long: int) -> None:
    queries, keys = torch.randn(*lead, T, K), torch.randn(*lead, keys_long, K)
    values = torch.randn(*lead, keys_long, W)
    mask = random_mask(*(1,) * len(lead), T, keys_long)
    expected = attention_weights(queries.double(), keys.double(), mask) @ values.double()
    torch.testing.assert_close(attend(queries, keys, values, mask).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keys_long", [S, MANY], ids=["few keys", "many keys"])
def test_dropout_keeps_the_expectation(keys_long: int) -> None:
    queries, keys, values = torch.randn(1, 1, K), torch.randn(1, keys_long, K), torch.ones(1, keys_long, 1)
    many = torch.stack([attend(queries, keys, values, dropout=0.5) for _ in range(4000)])
    assert many.std() > 0.05
    assert many.mean() == pytest.approx(1.0, abs=5 * float(many.std()) / math.sqrt(4000))


@pytest.mark.parametrize("keys_long", [0, S, MANY])
@pytest.mark.parametrize("batch", [0, 1, B])
@pytest.mark.parametrize("size", [0, 1, T])
def test_empty_batches_queries_and_memories_work(keys_long: int, batch: int, size: int) -> None:
    q, k, v = (torch.randn(batch, H, n, K, requires_grad=True) for n in (size, keys_long, keys_long))
    for mask in (None, torch.ones(batch, 1, size, keys_long, dtype=torch.bool)):
        output = attend(q, k, v, mask)
        assert output.shape == (batch, H, size, K)
        assert keys_long or output.eq(0).all()
        assert all(grad.isfinite().all() for grad in gradients(output, q, k, v))


def test_no_keys_give_exactly_zero() -> None:
    output = attend(torch.randn(B, T, K), torch.randn(B, 0, K), torch.randn(B, 0, W))
    torch.testing.assert_close(output, torch.zeros(B, T, W), **EXACT)


@pytest.mark.parametrize(
    ("queries", "keys", "values", "message"),
    [
        (
            torch.ones(B, T, K, dtype=torch.long),
            torch.ones(B, S, K),
            torch.ones(B, S, W),
            "queries is of type",
        ),
        (torch.ones(B, T, K), torch.ones(B, S, K + 1), torch.ones(B, S, W), "keys is of shape"),
        (torch.ones(B, T, K), torch.ones(B + 1, S, K), torch.ones(B + 1, S, W), "keys is of shape"),
        (torch.ones(B, T, K), torch.ones(S, K), torch.ones(S, W), "keys is of shape"),
        (torch.ones(B, T, K), torch.ones(B, S, K), torch.ones(B, S + 1, W), "values is of shape"),
        (torch.ones(B, T, K), torch.ones(B, S, K).long(), torch.ones(B, S, W), "keys is of type torch.int64"),
        (
            torch.ones(B, T, K),
            torch.ones(B, S, K),
            torch.ones(B, S, W).double(),
            "values is of type",
        ),
        (torch.ones(K), torch.ones(K), torch.ones(W), r"queries is of shape \(11,\); allowed: \(..., T, K\)"),
    ],
)
def test_invalid_shapes_and_types_raise_an_error_that_names_them(
    queries: Tensor, keys: Tensor, values: Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        attend(queries, keys, values)


def test_causal_attention_with_fewer_keys_than_queries_is_rejected() -> None:
    with pytest.raises(ValueError, match="keys is 3 long; allowed: at least 5 for causal queries"):
        attend(torch.randn(B, 5, K), torch.randn(B, 3, K), torch.randn(B, 3, W), causal=True)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_dropout_outside_its_range_is_rejected(dropout: float) -> None:
    x = torch.randn(B, T, K)
    with pytest.raises(ValueError, match=f"dropout is {dropout}; allowed: at least 0 and less than 1"):
        attend(x, x, x, dropout=dropout)
