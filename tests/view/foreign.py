"""Models that were not written for this library, and an independent record of their attention weights."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from support import D, H
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

SOFTMAXES = {F.softmax, torch.softmax, Tensor.softmax}


class Softmaxes(TorchFunctionMode):
    """Keeps the output of each softmax in Python code, and the weights of each fused attention."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in SOFTMAXES:
            self.weights.append(result.detach().clone())
        elif func is F.scaled_dot_product_attention:
            self.weights.append(explicit(*args, **kwargs))
        return result


def explicit(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights of F.scaled_dot_product_attention, as its documentation defines them."""
    bias = torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype)
    if is_causal:
        bias = bias.masked_fill(torch.ones_like(bias, dtype=torch.bool).tril().logical_not(), -math.inf)
    if attn_mask is not None:
        bias = bias + (
            torch.zeros(attn_mask.shape).masked_fill(~attn_mask, -math.inf)
            if attn_mask.dtype == torch.bool
            else attn_mask
        )
    if enable_gqa:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    return (q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1])) + bias).softmax(-1).detach()


class Projections(nn.Module):
    """Queries, keys, values and output, for the classes below."""

    def __init__(self, width: int = D, heads: int = H) -> None:
        super().__init__()
        self.width, self.count = width, heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))


class Einsum(Projections):
    """Axes in the order of "bthk", without a transpose."""

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = (
            layer(y).reshape(*y.shape[:2], self.count, -1)
            for layer, y in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k) / q.shape[-1] ** 0.5
        mixed = torch.einsum("nhqk,nkhd->nqhd", torch.softmax(energy, dim=3), v)
        return self.o(mixed.flatten(2))


class HeadsOfTheInput(Projections):
    """Heads are split off before one projection that all of them share."""

    def __init__(self) -> None:
        super().__init__(D // H, H)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x.unflatten(-1, (self.count, -1))) for layer in (self.q, self.k, self.v))
        energy = torch.einsum("bqhd,bkhd->bhqk", q, k)
        return torch.einsum("bhqk,bkhd->bqhd", energy.softmax(-1), v).flatten(2)


class HeadsInTheBatch(Projections):
    """Slices of the features are concatenated along the batch: the heads come first."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.cat(layer(x).chunk(self.count, -1), 0) for layer in (self.q, self.k, self.v))
        weights = F.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
        return self.o(torch.cat((weights @ v).chunk(self.count, 0), -1))


class KeysFirst(Projections):
    """The product is (S, T): the softmax runs over the first of its axes."""

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = (
            layer(y).unflatten(-1, (self.count, -1)).transpose(1, 2)
            for layer, y in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        weights = (k @ q.mT / q.shape[-1] ** 0.5).softmax(-2)
        return self.o((weights.mT @ v).transpose(1, 2).flatten(2))


class WrittenOut(Projections):
    """exp / sum, with a mask in place."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.count, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores.masked_fill_(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -1e9)
        exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
        weights = exponentials / exponentials.sum(-1, keepdim=True)
        self.attention_weights = weights.detach()
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class LogSumExp(Projections):
    """exp(scores - logsumexp)."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.count, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        self.attention_weights = weights.detach()
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class OneProjection(nn.Module):
    """Queries, keys and values are one layer; heads in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).split(D, dim=-1)
        mixed = []
        for head in range(H):
            part = slice(head * D // H, (head + 1) * D // H)
            scores = torch.bmm(q[..., part], k[..., part].transpose(1, 2))
            mixed.append(torch.bmm(torch.softmax(scores, -1), v[..., part]))
        return self.out(torch.cat(mixed, -1))


class Grouped(nn.Module):
    """Six heads of queries, two of keys: grouped-query attention with scaled_dot_product_attention."""

    def __init__(self, *, repeat: bool) -> None:
        super().__init__()
        self.repeat = repeat
        self.q, self.kv = nn.Linear(D, 6 * 4), nn.Linear(D, 2 * 2 * 4)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (6, 4)).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (2, 2, 4)).permute(2, 0, 3, 1, 4)
        if self.repeat:
            k, v = (y[:, :, None].expand(-1, -1, 3, -1, -1).reshape(len(x), 6, -1, 4) for y in (k, v))
            return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)
        return (
            F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            .transpose(1, 2)
            .flatten(2)
        )


class MultiQuery(nn.Module):
    """All heads share one head of keys: their queries are rows of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(D, D), nn.Linear(D, D // H)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, H, -1).transpose(1, 2).reshape(batch, H * length, -1)
        k = self.k(x)
        weights = torch.bmm(q, k.mT).view(batch, H, length, length).softmax(-1)
        return torch.bmm(weights.view(batch, H * length, length), k).view(batch, H, length, -1)


class WeightedSum(nn.Module):
    """Attention pooling whose mean is a product and a sum, with one score per position."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(D, 13), nn.Tanh(), nn.Linear(13, 1))

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.score(x), dim=1)
        return (weights * x).sum(1)


class LearnedQueries(nn.Module):
    """Two learned queries attend to the whole sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 2, D))
        self.key, self.value = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        q = self.queries.expand(len(x), -1, -1)
        return (q @ self.key(x).mT).softmax(-1) @ self.value(x)


class InnerSoftmax(Projections):
    """Softmax and dropout are modules of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.softmax, self.drop = nn.Softmax(dim=-1), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.count, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        return self.o((self.drop(self.softmax(q @ k.mT)) @ v).transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    """A model with other softmaxes: a mixture of experts, and class probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = InnerSoftmax()
        self.gate, self.experts = nn.Linear(D, 3), nn.Parameter(torch.randn(3, D, D))
        self.head = nn.Linear(D, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(x)
        gates = self.gate(x).softmax(-1)
        x = torch.einsum("bte,btd,edf->btf", gates, x, self.experts)
        return self.head(x.mean(1)).softmax(-1)


class Chunked(nn.Module):
    """Never computes the weights as a whole: a running maximum and a running sum."""

    def forward(self, x: Tensor) -> Tensor:
        total, mean = torch.zeros(*x.shape[:2], 1), torch.zeros_like(x)
        for part in x.split(2, 1):
            exponentials = (x @ part.mT / 5).exp()
            total, mean = total + exponentials.sum(-1, keepdim=True), mean + exponentials @ part
        return mean / total


class TalkingHeads(Projections):
    """Parameters mix the heads before and after the softmax (Shazeer et al. 2020), and a norm follows."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after, self.norm = nn.Linear(H, H), nn.Linear(H, H), nn.LayerNorm(H)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.count, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        scores = self.before((q @ k.mT).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        mixed = self.norm(self.after(scores.softmax(-1).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return self.o((mixed @ v).transpose(1, 2).flatten(2))
