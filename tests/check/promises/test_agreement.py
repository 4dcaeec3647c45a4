"""The verdicts about one object agree with each other: one mistake breaks one promise."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from limelight.check import check
from limelight.check.promises.consequences import CONSEQUENCES
from limelight.check.promises.registry import PROMISES
from limelight.check.report import Report


def attention(fill: float = -math.inf, axis: int = -1, uses_mask: bool = True) -> Callable[..., Tensor]:
    def attention(q, k, v, mask=None):  # type: ignore[no-untyped-def]
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None and uses_mask:
            scores = scores.masked_fill(mask == 0, fill)
        return scores.softmax(axis) @ v

    return attention


class CausalSelfAttention(nn.Module):
    hidden, fill = 0, -math.inf

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, self.n_heads, -1).transpose(1, 2).chunk(3, -1)
        past = torch.ones(t, t, device=x.device).tril()
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(past == self.hidden, self.fill)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class InvertedCausalAttention(CausalSelfAttention):
    hidden = 1


class InvertedSelfAttention(CausalSelfAttention):
    hidden = 1


class NearlyInvertedCausalAttention(CausalSelfAttention):
    hidden, fill = 1, -1e30


def verdicts(report: Report) -> dict[str, str]:
    return {finding.promise: finding.verdict for finding in report.findings}


@pytest.mark.parametrize(
    ("thing", "promise", "undecided"),
    [
        (attention(fill=0.0), "masked-weight", ["mask-polarity", "masked-values-leak"]),
        (attention(axis=-2), "softmax-axis", ["rows-sum-to-one", "heads-mix-positions", "masked-weight"]),
        (attention(uses_mask=False), "mask-has-effect", ["mask-polarity", "masked-weight"]),
        (InvertedCausalAttention, "causality", ["rows-sum-to-one", "permutation", "projection-unused"]),
        (InvertedSelfAttention, "causality", ["rows-sum-to-one", "permutation"]),
        (NearlyInvertedCausalAttention, "causality", ["rows-sum-to-one", "permutation"]),
    ],
)
def test_one_mistake_breaks_one_promise(thing: object, promise: str, undecided: list[str]) -> None:
    report = check(thing)
    assert [finding.promise for finding in report.broken] == [promise]
    assert {verdicts(report)[name] for name in undecided} == {"n/a"}


@pytest.mark.parametrize("thing", [attention(), CausalSelfAttention])
def test_correct_code_is_judged_by_every_promise(thing: object) -> None:
    report = check(thing)
    assert not report.broken
    assert not [finding.hint for finding in report.findings if "cannot be judged" in finding.hint]


def test_an_inverted_causal_mask_shows_the_future() -> None:
    (finding,) = check(InvertedCausalAttention).broken
    assert "the future is visible" in finding.got
    assert "masked_fill" in finding.code


def test_a_layer_without_attention_breaks_a_promise_of_attention() -> None:
    (finding,) = check(nn.Linear, "multi-head-attention").broken
    assert "no attention" in finding.got


def test_a_softmax_of_one_row_is_right() -> None:
    def softmax_of_row(x: Tensor) -> Tensor:
        return torch.exp(x) / torch.exp(x).sum(dim=0)

    def softmax_over_queries(x: Tensor) -> Tensor:
        return x.softmax(-2) if x.dim() > 1 else x

    assert check(softmax_of_row, "masked-softmax").broken == []
    assert [f.promise for f in check(softmax_over_queries, "masked-softmax").broken] == ["softmax-axis"]


def test_the_table_of_consequences_names_promises() -> None:
    names = {promise.name for promise in PROMISES.values()}
    assert {*CONSEQUENCES, *" ".join(CONSEQUENCES.values()).split()} <= names
