"""No mask causes NaN; fused, watched and float64 attention agree."""

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import DTYPES, MANY, B, D, H, S, T, must_fail, random_mask, roughen
from torch import Tensor

from limelight.nn import MultiHeadAttention, attend, attention_weights, causal_mask, padding_mask
from limelight.view import watch


@dataclass(frozen=True)
class Case:
    batch: int
    size: int
    keys: int
    kind: str
    causal: bool
    seed: int

    def mask(self) -> Tensor | None:
        torch.manual_seed(self.seed)
        shape = (self.batch, self.size, self.keys)
        if self.kind == "lengths":
            return padding_mask(torch.randint(0, self.keys + 1, (self.batch,)), self.keys)
        if self.kind == "lengths of each query":
            return padding_mask(torch.randint(0, self.keys + 1, shape[:2]), self.keys)
        if self.kind == "random":
            return torch.rand(shape) < torch.rand(()) * 0.5
        if self.kind == "nothing":
            return torch.zeros(shape, dtype=torch.bool)
        return None

    def whole_mask(self, mask: Tensor | None) -> Tensor:
        whole = torch.ones(self.batch, self.size, self.keys, dtype=torch.bool)
        if mask is not None:
            whole = whole & mask
        return whole & causal_mask(self.size, self.keys - self.size) if self.causal else whole


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(1, 7))
    keys = draw(st.one_of(st.integers(0, 9), st.integers(MANY - 2, MANY + 2)))
    return Case(
        batch=draw(st.integers(1, 3)),
        size=size,
        keys=keys,
        kind=draw(st.sampled_from(["none", "lengths", "lengths of each query", "random", "nothing"])),
        causal=draw(st.booleans()) and keys >= size,
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def check_case(attention: MultiHeadAttention, case: Case, dtype: torch.dtype, watched: bool) -> None:
    """Values and gradients are finite. Where nothing may be attended to, weights are exactly zero, and the
    output is exactly the bias."""
    attention = roughen(attention).to(dtype)
    x = torch.randn(case.batch, case.size, D, dtype=dtype, requires_grad=True)
    memory = (3 * torch.randn(case.batch, case.keys, D)).to(dtype).requires_grad_()
    mask = case.mask()
    whole = case.whole_mask(mask)
    empty = ~whole.any(-1)
    if watched:
        with watch(attention) as seen:
            output = attention(x, memory, mask, causal=case.causal)
        (weights,) = seen["weights"]
        forbidden = ~whole.unsqueeze(1).expand_as(weights)
        assert weights.isfinite().all()
        assert weights[forbidden].eq(0).all()
        sums = weights.float().sum(-1)
        assert sums.sub((~empty).unsqueeze(1).float()).abs().max() < (
            1e-5 if dtype == torch.float32 else 2e-2
        )
    else:
        output = attention(x, memory, mask, causal=case.causal)
    assert output.isfinite().all()
    assert output[empty].eq(attention.output.bias).all()
    output.float().square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad[empty].eq(0).all()
    # The gradient of an empty memory is None or an empty tensor.
    assert memory.grad is None or memory.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in attention.parameters() if p.grad is not None)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("watched", [False, True], ids=["fused", "watched"])
@settings(max_examples=2000, deadline=None, derandomize=True)
@given(case=cases())
def test_no_mask_causes_nan_and_rows_without_a_key_are_exactly_zero(
    dtype: torch.dtype, watched: bool, case: Case
) -> None:
    check_case(MultiHeadAttention(D, H), case, dtype, watched)


class InfiniteFill(MultiHeadAttention):
    """The usual implementation: -inf before the softmax, which gives NaN where nothing is allowed."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask.unsqueeze(1), -math.inf).softmax(-1)
        return self.weights(weights) @ v


class FiniteFill(MultiHeadAttention):
    """The other usual implementation: -1e9, which gives uniform weights where nothing is allowed."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask.unsqueeze(1), -1e9).softmax(-1)
        return self.weights(weights) @ v


@DTYPES
@pytest.mark.parametrize("watched", [False, True], ids=["fused", "watched"])
@pytest.mark.parametrize("broken", [InfiniteFill, FiniteFill])
@pytest.mark.parametrize("keys", [S, MANY])
def test_the_check_for_nan_catches_the_usual_implementations(
    dtype: torch.dtype, watched: bool, broken: type, keys: int
) -> None:
    case = Case(batch=2, size=T, keys=keys, kind="nothing", causal=False, seed=1)
    must_fail(check_case, broken(D, H), case, dtype, watched)


def check_agreement(attention: MultiHeadAttention, length: int, causal: bool) -> None:
    """fused = watched = float64, within 1e-5; rows of weights sum to 1 or are all 0."""
    x = torch.randn(B, length, D)
    mask = random_mask(B, length, length)
    mask[1, 2] = False
    with watch(attention) as seen:
        watched = attention(x, mask=mask, causal=causal)
    (weights,) = seen["weights"]
    whole = mask & causal_mask(length) if causal else mask
    q, k, v = (
        (x.double() @ linear.weight.double().T + linear.bias.double()).view(B, length, H, -1).transpose(1, 2)
        for linear in (attention.query, attention.key, attention.value)
    )
    exact = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).exp() * whole.unsqueeze(1)
    exact = exact / exact.sum(-1, keepdim=True).clamp(min=1e-300)
    mixed = (exact @ v).transpose(1, 2).reshape(B, length, D)
    output = mixed @ attention.output.weight.double().T + attention.output.bias.double()
    near: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(weights.double(), exact, **near)
    torch.testing.assert_close(watched.double(), output, **near)
    torch.testing.assert_close(attention(x, mask=mask, causal=causal).double(), output, **near)
    sums = weights.sum(-1)
    expected = whole.any(-1).unsqueeze(1).expand_as(sums).float()
    torch.testing.assert_close(sums, expected, rtol=1e-5, atol=1e-5)
    assert sums[expected == 0].eq(0).all()


class IgnoresMaskWhenWatched(MultiHeadAttention):
    """The watched weights are computed without the mask, and are not those of the model."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool) -> Tensor:
        if self.weights.watched:
            self.weights(attention_weights(q, k, causal=causal))
        return attend(q, k, v, mask.unsqueeze(1), causal=causal)


class IgnoresMaskWhenFused(MultiHeadAttention):
    """Only the watched weights are masked."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool) -> Tensor:
        if not self.weights.watched:
            return attend(q, k, v, causal=causal)
        return super()._attend(q, k, v, mask, causal)


@pytest.mark.parametrize("length", [T, 24, 25, MANY, 131])
@pytest.mark.parametrize("causal", [False, True], ids=["open", "causal"])
def test_fused_watched_and_float64_agree(length: int, causal: bool) -> None:
    check_agreement(MultiHeadAttention(D, H), length, causal)
    must_fail(check_agreement, IgnoresMaskWhenWatched(D, H), length, causal)
    must_fail(check_agreement, IgnoresMaskWhenFused(D, H), length, causal)
