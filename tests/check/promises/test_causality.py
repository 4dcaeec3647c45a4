"""What is expected to be causal: by its name, by a mask of its caller, or because it predicts tokens."""

import pytest
import torch
from torch import Tensor, nn

from limelight.check import check


class Attention(nn.Module):
    """softmax(q·k/√d)·v with a causal mask, with that of the caller, or without one."""

    def __init__(self, d_model: int, num_heads: int, is_causal: bool = False, shift: int = 0) -> None:
        super().__init__()
        self.num_heads, self.is_causal, self.shift = num_heads, is_causal, shift
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, self.num_heads, -1).transpose(1, 2).chunk(3, -1)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if self.is_causal:
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril(self.shift)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e30)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class GPTAttention(Attention):
    """Causal if its caller gives a causal mask."""


class CausalAttention(Attention):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, is_causal=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)


class ShiftedCausalAttention(CausalAttention):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.shift = 1


class TokenModel(nn.Module):
    is_causal = True

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, max_len: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Parameter(torch.randn(max_len, d_model))
        self.attention = Attention(d_model, num_heads, self.is_causal)
        self.head = nn.Linear(d_model, self.outputs(vocab_size))

    def outputs(self, vocab_size: int) -> int:
        return vocab_size

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.positions[: tokens.shape[1]]
        return self.head(x + self.attention(x))


class ReadingModel(TokenModel):
    is_causal = False


class Tagger(ReadingModel):
    def outputs(self, vocab_size: int) -> int:
        return 3


class CausalCrossAttention(nn.Module):
    diagonal = 0

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        layers = ((self.query, query), (self.key, key), (self.value, value))
        q, k, v = (f(x).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2) for f, x in layers)
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1 + self.diagonal)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, -1e30)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class LeakingCausalCrossAttention(CausalCrossAttention):
    diagonal = 1


@pytest.mark.parametrize(
    ("cls", "kind", "verdict"),
    [
        (CausalAttention, "multi-head-attention", "pass"),
        (ShiftedCausalAttention, "multi-head-attention", "FAIL"),
        (GPTAttention, "multi-head-attention", "pass"),
        (Attention, "multi-head-attention", "n/a"),
        (CausalCrossAttention, "multi-head-attention", "pass"),
        (LeakingCausalCrossAttention, "multi-head-attention", "FAIL"),
        (TokenModel, "sequence-model", "pass"),
        (ReadingModel, "sequence-model", "warn"),
        (Tagger, "sequence-model", "n/a"),
    ],
)
def test_causality_is_judged_where_it_is_promised(cls: type[nn.Module], kind: str, verdict: str) -> None:
    report = check(cls, kind)
    assert not report.trouble
    assert {finding.promise for finding in report.broken} <= {"causality"}
    (finding,) = (one for one in report.findings if one.promise == "causality")
    assert finding.verdict == verdict


class CachedAttention(Attention):
    """Keys and values of earlier positions are in a cache; the caller gives the number of its positions."""

    ignores_offset = False

    def __init__(self, d_model: int, num_heads: int, max_len: int) -> None:
        super().__init__(d_model, num_heads)
        self.positions = nn.Parameter(torch.randn(max_len, d_model))

    def forward(  # type: ignore[override]
        self, x: Tensor, mask: Tensor | None = None, kv_cache: Tensor | None = None, position_offset: int = 0
    ) -> tuple[Tensor, dict[str, Tensor]]:
        start = 0 if self.ignores_offset else position_offset
        x = x + self.positions[start : start + x.shape[1]]
        q, k, v = self.qkv(x).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2).chunk(3, -1)
        if kv_cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(kv_cache.values(), (k, v), strict=True))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -1e30)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), {"k": k, "v": v}


class ForgetsOffset(CachedAttention):
    ignores_offset = True


@pytest.mark.parametrize(("cls", "verdict"), [(CachedAttention, "pass"), (ForgetsOffset, "FAIL")])
def test_steps_get_their_offset_and_are_compared_with_a_causal_mask(
    cls: type[nn.Module], verdict: str
) -> None:
    report = check(cls, "multi-head-attention")
    assert not report.trouble
    (finding,) = (one for one in report.findings if one.promise == "incremental")
    assert finding.verdict == verdict
