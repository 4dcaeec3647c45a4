"""Mistakes in returned weights, in parameters, in residuals, in additive scores and in outputs of models."""

import pytest
import torch
from torch import Tensor, nn

from limelight.check import check


class MultiHeadAttention(nn.Module):
    returned = "weights"

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)
        self.make(d_model)

    def make(self, width: int) -> None:
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(width, width) for _ in range(4))

    def split(self, x: Tensor, layer: nn.Module) -> Tensor:
        return layer(x).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        pairs = ((query, self.W_q), (key, self.W_k), (value, self.W_v))
        q, k, v = (self.split(x, layer) for x, layer in pairs)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        weights = scores.softmax(-1)
        dropped = self.dropout(weights)
        used = weights if self.returned == "only dropped" else dropped
        found = {"weights": weights, "scores": scores, "mean": weights.mean(1)}
        return self.W_o((used @ v).transpose(1, 2).flatten(2)), found.get(self.returned, dropped)


class ReturnsMean(MultiHeadAttention):
    returned = "mean"


class ReturnsDropped(MultiHeadAttention):
    returned = "dropped"


class ReturnsScores(MultiHeadAttention):
    returned = "scores"


class DropsOnlyReturned(MultiHeadAttention):
    returned = "only dropped"


class SharedProjections(MultiHeadAttention):
    def make(self, width: int) -> None:
        self.W_q, self.W_k, self.W_v = (
            nn.Linear(width // self.num_heads, width // self.num_heads) for _ in range(3)
        )
        self.W_o = nn.Linear(width, width)

    def split(self, x: Tensor, layer: nn.Module) -> Tensor:
        out: Tensor = layer(x.view(*x.shape[:2], self.num_heads, -1))
        return out.transpose(1, 2)


class EmptyParameter(MultiHeadAttention):
    def make(self, width: int) -> None:
        super().make(width)
        self.W_q.bias = nn.Parameter(torch.empty(width))


class FilledParameter(MultiHeadAttention):
    def make(self, width: int) -> None:
        super().make(width)
        self.W_q.bias = nn.Parameter(torch.empty(width).zero_())


@pytest.mark.parametrize(
    ("cls", "broken"),
    [
        (MultiHeadAttention, []),
        (ReturnsMean, []),
        (ReturnsDropped, []),
        (ReturnsScores, ["returned-weights"]),
        (DropsOnlyReturned, ["returned-weights", "dropout-train"]),
        (SharedProjections, ["head-projections"]),
        (EmptyParameter, ["initialised"]),
        (FilledParameter, []),
    ],
)
def test_attention(cls: type[nn.Module], broken: list[str]) -> None:
    report = check(cls, "multi-head-attention")
    assert not report.trouble
    assert [finding.promise for finding in report.broken] == broken


class Block(nn.Module):
    added = "query"

    def __init__(self, d_model: int, num_heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        added = {"query": query, "key": key, "value": value}[self.added]
        x = self.norm1(added + self.attention(query, key, value)[0])
        out: Tensor = self.norm2(x + self.ff(x))
        return out


class BlockThatAddsValue(Block):
    added = "value"


class BlockThatAddsKey(Block):
    added = "key"


@pytest.mark.parametrize(
    ("cls", "got"),
    [(Block, None), (BlockThatAddsValue, "adds the value"), (BlockThatAddsKey, "adds the key")],
)
def test_the_residual_adds_the_query(cls: type[nn.Module], got: str | None) -> None:
    report = check(cls, "encoder-block")
    assert not report.trouble
    assert [finding.promise for finding in report.broken] == (["residual"] if got else [])
    assert not got or got in report.broken[0].got
    assert not got or "added +" in report.broken[0].code


class AdditiveAttention(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.W_q, self.W_k = nn.Linear(d_model, 8, bias=False), nn.Linear(d_model, 8, bias=False)
        self.w = nn.Linear(8, 1, bias=False)

    def combine(self, q: Tensor, k: Tensor) -> Tensor:
        return q + k

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        joint = self.combine(self.W_q(queries).unsqueeze(2), self.W_k(keys).unsqueeze(1))
        weights: Tensor = self.w(torch.tanh(joint)).squeeze(-1).softmax(-1)
        return weights @ values


class MultiplicativeAttention(AdditiveAttention):
    def combine(self, q: Tensor, k: Tensor) -> Tensor:
        return q * k


@pytest.mark.parametrize(
    ("cls", "broken"), [(AdditiveAttention, []), (MultiplicativeAttention, ["additive-scores"])]
)
def test_additive_attention_adds(cls: type[nn.Module], broken: list[str]) -> None:
    assert [finding.promise for finding in check(cls, "additive-attention").broken] == broken


class Classifier(nn.Module):
    def __init__(self, vocab_size: int, d_model: int, num_classes: int, max_len: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Parameter(torch.randn(max_len, d_model))
        self.attention = MultiHeadAttention(d_model, 2)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.positions[: tokens.shape[1]]
        out: Tensor = self.head((x + self.attention(x, x, x)[0]).mean(1))
        return out


class LogClassifier(Classifier):
    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).log_softmax(-1)


class ProbabilityClassifier(Classifier):
    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).softmax(-1)


@pytest.mark.parametrize(
    ("cls", "warned"), [(Classifier, []), (LogClassifier, []), (ProbabilityClassifier, ["logits"])]
)
def test_a_model_returns_logits(cls: type[nn.Module], warned: list[str]) -> None:
    report = check(cls, "sequence-model")
    assert not report.broken
    assert [finding.promise for finding in report.warned] == warned


class PaddedClassifier(Classifier):
    """Token 0 is padding, although no argument says so."""

    def forward(self, tokens: Tensor) -> Tensor:
        real = (tokens != 0).unsqueeze(-1)
        x = self.embed(tokens) + self.positions[: tokens.shape[1]]
        out: Tensor = self.head((x * real).sum(1) / real.sum(1))
        return out


class HalfPaddedClassifier(PaddedClassifier):
    def forward(self, tokens: Tensor) -> Tensor:
        real = (tokens != 0).unsqueeze(-1)
        x = self.embed(tokens) + self.positions[: tokens.shape[1]]
        out: Tensor = self.head((x * real).mean(1))
        return out


@pytest.mark.parametrize(
    ("cls", "verdict"), [(Classifier, "n/a"), (PaddedClassifier, "pass"), (HalfPaddedClassifier, "warn")]
)
def test_a_model_that_compares_tokens_with_0_has_padding(cls: type[nn.Module], verdict: str) -> None:
    report = check(cls, "sequence-model")
    assert [finding.verdict for finding in report.findings if finding.promise == "padding"] == [verdict]


class UnusedParameter(nn.Module):
    """The only parameter of an attention without projections is never used."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(1, 1, 1))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return (queries @ keys.mT * queries.shape[-1] ** -0.5).softmax(-1) @ values


class UsedParameter(UnusedParameter):
    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return super().forward(queries, keys, values * self.W)


@pytest.mark.parametrize(("cls", "broken"), [(UsedParameter, []), (UnusedParameter, ["projection-unused"])])
def test_a_parameter_that_is_never_used(cls: type[nn.Module], broken: list[str]) -> None:
    report = check(cls, "dot-product-attention")
    assert not report.trouble
    assert [finding.promise for finding in report.broken] == broken
