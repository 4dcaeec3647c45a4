"""One multi-head self-attention, forward and backward: ours, torch.nn, x-transformers, a textbook version.

Width 256, 8 heads, no biases (x-transformers has none), float32, 2,048 tokens per batch (4,096 for
the longest). All contenders have the same weights, and their outputs are compared first.
"""

import math
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from x_transformers.x_transformers import Attention

from bench.rounds import Contender, machine, ratio, row, take_turns
from limelight.bridge import to_torch
from limelight.nn import MultiHeadAttention

WIDTH, HEADS = 256, 8
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
TOKENS = 2048


def naive_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v


class Textbook(nn.Module):
    """Projections around `mix`: the naive softmax over all scores, or torch's kernel alone."""

    def __init__(self, ours: MultiHeadAttention, mix: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.load_state_dict(ours.state_dict())
        self.mix = mix

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part(x).view(batch, length, HEADS, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        return self.output(self.mix(q, k, v).transpose(1, 2).reshape(batch, length, WIDTH))


class Torch(nn.Module):
    def __init__(self, ours: MultiHeadAttention, need_weights: bool) -> None:
        super().__init__()
        self.attention, self.need_weights = to_torch(ours), need_weights

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=self.need_weights)[0]


class XTransformers(nn.Module):
    def __init__(self, ours: MultiHeadAttention, flash: bool) -> None:
        super().__init__()
        self.attention = Attention(WIDTH, dim_head=WIDTH // HEADS, heads=HEADS, flash=flash)
        theirs = ("to_q", "to_k", "to_v", "to_out")
        for name, part in zip(theirs, (ours.query, ours.key, ours.value, ours.output), strict=True):
            getattr(self.attention, name).load_state_dict(part.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        output = self.attention(x)
        return output[0] if isinstance(output, tuple) else output


def bare_products(batch: int, length: int) -> Contender:
    """Only the necessary matrix products of forward and backward: a lower bound of the time."""
    x, weight = torch.randn(batch * length, WIDTH), torch.randn(WIDTH, WIDTH)
    q = torch.randn(batch * HEADS, length, WIDTH // HEADS)
    scores = torch.randn(batch * HEADS, length, length)

    def run() -> None:
        for _ in range(4):  # query, key, value, output: forward, gradients of input and weight
            x @ weight.T
            x @ weight
            x.T @ x
        for _ in range(2):  # scores and gradients of weights
            torch.bmm(q, q.transpose(1, 2), out=scores)
        for _ in range(4):  # output; gradients of queries, keys, values
            torch.bmm(scores, q)

    return run


def contenders(length: int) -> tuple[int, dict[str, Contender]]:
    batch = max(1, TOKENS // length)
    ours = MultiHeadAttention(WIDTH, HEADS, bias=False)
    modules = {
        "limelight": ours,
        "nn.MultiheadAttention": Torch(ours, need_weights=False),
        "the same, with weights": Torch(ours, need_weights=True),
        "x-transformers, flash": XTransformers(ours, flash=True),
        "x-transformers": XTransformers(ours, flash=False),
        "naive softmax": Textbook(ours, naive_softmax),
        "torch's kernel alone": Textbook(ours, F.scaled_dot_product_attention),
    }
    x, gradient = torch.randn(batch, length, WIDTH, requires_grad=True), torch.randn(batch, length, WIDTH)
    with torch.no_grad():
        for name, module in modules.items():
            torch.testing.assert_close(module(x), ours(x), rtol=1e-4, atol=1e-5, msg=f"{name} differs")

    def step(module: nn.Module) -> Contender:
        def run() -> None:
            module.zero_grad()
            x.grad = None
            module(x).backward(gradient)

        return run

    runs: dict[str, Contender] = {name: step(module) for name, module in modules.items()}
    return batch, runs | {"bare matrix products": bare_products(batch, length)}


def main(seconds: float) -> None:
    torch.manual_seed(1)
    print(f"\n## One multi-head attention, forward and backward\n\n{machine()}\n")
    header_printed = False
    for length in LENGTHS:
        batch, runs = contenders(length)
        times = take_turns(runs, seconds)
        ours = times.pop("limelight")
        if not header_printed:
            print(row("T × batch", "ours, ms", "rounds", *times), row(*["---"] * (3 + len(times))), sep="\n")
            header_printed = True
        milliseconds = f"{statistics.median(ours) * 1e3:.1f}"
        ratios = [ratio(theirs, ours) for theirs in times.values()]
        print(row(f"{length} × {batch}", milliseconds, len(ours), *ratios), flush=True)
