"""NaN and infinity at masked positions affect no value and no gradient."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from support import HIDDEN, B, D, H, S, T, must_fail
from torch import Tensor, nn

from limelight.nn import (
    AdditiveAttention,
    BlockConfig,
    Decoder,
    DecoderBlock,
    Encoder,
    EncoderBlock,
    MultiHeadAttention,
    attend,
    attention_weights,
    padding_mask,
    pool,
    scaled_dot,
)
from limelight.view import watch

BLOCK = BlockConfig(D, H, HIDDEN)
PRE_NORM = BlockConfig(D, H, HIDDEN, norm="pre")
LENGTHS = [4, 2, 3]
TARGET = padding_mask(LENGTHS, T)  # (B, 1, T)
SOURCE = padding_mask([7, 3, 5], S)
TARGET_ROWS = TARGET.expand(-1, T, -1)
SOURCE_ROWS = SOURCE.expand(-1, T, -1)


class Pure(nn.Module):
    """A function as a module, so that functions and modules are tested in the same way."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return self.function(x, memory) * self.scale


Call = Callable[[Any, Tensor, Tensor], Tensor]
CASES: dict[str, tuple[Callable[[], nn.Module], Call]] = {
    "self-attention": (lambda: MultiHeadAttention(D, H), lambda m, x, _: m(x, mask=TARGET)),
    "self-attention, a mask of T rows": (
        lambda: MultiHeadAttention(D, H), lambda m, x, _: m(x, mask=TARGET_ROWS),
    ),
    "causal self-attention": (
        lambda: MultiHeadAttention(D, H), lambda m, x, _: m(x, mask=TARGET, causal=True),
    ),
    "self-attention with dropout": (
        lambda: MultiHeadAttention(D, H, dropout=0.1), lambda m, x, _: m(x, mask=TARGET),
    ),
    "cross-attention": (lambda: MultiHeadAttention(D, H), lambda m, x, s: m(x, s, SOURCE)),
    "cross-attention, a mask of T rows": (
        lambda: MultiHeadAttention(D, H), lambda m, x, s: m(x, s, SOURCE_ROWS),
    ),
    "projected memory": (lambda: MultiHeadAttention(D, H), lambda m, x, s: m(x, m.project(s), SOURCE)),
    "additive": (lambda: AdditiveAttention(D, D, 13), lambda m, x, s: m(x, s, SOURCE)),
    "encoder block": (lambda: EncoderBlock(BLOCK), lambda m, x, _: m(x, TARGET)),
    "pre-norm encoder block": (lambda: EncoderBlock(PRE_NORM), lambda m, x, _: m(x, TARGET)),
    "decoder block": (lambda: DecoderBlock(BLOCK), lambda m, x, s: m(x, s, TARGET, SOURCE)),
    "encoder": (lambda: Encoder(2, BLOCK), lambda m, x, _: m(x, TARGET)),
    "encoder, a mask of T rows": (lambda: Encoder(2, BLOCK), lambda m, x, _: m(x, TARGET_ROWS)),
    "pre-norm encoder, a mask of T rows": (
        lambda: Encoder(2, PRE_NORM), lambda m, x, _: m(x, TARGET_ROWS),
    ),
    "decoder": (lambda: Decoder(2, BLOCK), lambda m, x, s: m(x, s, TARGET, SOURCE)),
    "decoder, masks of T rows": (
        lambda: Decoder(2, BLOCK), lambda m, x, s: m(x, s, TARGET_ROWS, SOURCE_ROWS),
    ),
    "attend": (lambda: Pure(lambda x, s: attend(x, s, s, SOURCE)), lambda m, x, s: m(x, s)),
    "attention_weights": (
        lambda: Pure(lambda x, s: attention_weights(x, s, SOURCE)), lambda m, x, s: m(x, s),
    ),
    "pool": (lambda: Pure(lambda x, s: pool(x, s, s, scaled_dot, SOURCE)), lambda m, x, s: m(x, s)),
}  # fmt: skip
# The memory was projected before the mask was known.
NOT_OF_WEIGHTS = {"projected memory"}


def results(
    name: str, padding: float, watched: bool, *, build: Callable[[], nn.Module] | None = None
) -> dict[str, Tensor | None]:
    """The output at real positions and all its gradients, with the value `padding` at masked positions."""
    torch.manual_seed(3)
    made, call = CASES[name]
    model = (build or made)()
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    own = "self" in name or "encoder" in name or "decoder" in name
    if own:
        x = x.masked_fill(~TARGET.transpose(1, 2), padding)
    memory = memory.masked_fill(~SOURCE.transpose(1, 2), padding)
    x.requires_grad_()
    memory.requires_grad_()
    torch.manual_seed(4)
    with watch(model) if watched else nullcontext():
        output = call(model, x, memory)
    real = output[TARGET.squeeze(1)] if own else output
    real.square().sum().backward()
    found: dict[str, Tensor | None] = {"output": real.detach(), "x": x.grad}
    if memory.grad is not None:
        found["memory"] = memory.grad
    if name not in NOT_OF_WEIGHTS:
        found |= {key: parameter.grad for key, parameter in model.named_parameters()}
    return found


def check_hidden(name: str, padding: float, watched: bool, **options: Callable[[], nn.Module]) -> None:
    expected = results(name, 0.0, watched, **options)
    for key, got in results(name, padding, watched, **options).items():
        if key in ("x", "memory") and name in NOT_OF_WEIGHTS:
            continue
        torch.testing.assert_close(got, expected[key], rtol=1e-5, atol=1e-6, msg=f"{key}: {{}}".format)


@pytest.mark.parametrize("watched", [False, True], ids=["fused", "watched"])
@pytest.mark.parametrize("padding", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", CASES)
def test_values_that_are_not_finite_in_padding_have_no_effect(
    name: str, padding: float, watched: bool
) -> None:
    if watched and isinstance(CASES[name][0](), Pure):
        pytest.skip("a function has no tap")
    check_hidden(name, padding, watched)


class Unprotected(MultiHeadAttention):
    """Like most implementations: weights of zero times the values at masked positions."""

    def forward(self, queries: Tensor, memory: Any = None, mask: Any = None, **_: Any) -> Tensor:
        kv = self.project(queries if memory is None else memory)
        q = self._split(self.query(queries), None)
        weights = attention_weights(q.detach(), kv.keys.detach(), mask.unsqueeze(1))
        return self.output((weights @ kv.values).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("name", ["self-attention", "cross-attention"])
def test_the_check_catches_weights_of_zero_times_nan(name: str) -> None:
    must_fail(lambda: check_hidden(name, math.nan, False, build=lambda: Unprotected(D, H)))


def test_a_real_query_that_is_not_finite_is_not_hidden() -> None:
    """Only positions that no query may attend to are hidden."""
    x = torch.randn(B, T, D)
    x[0, 0] = math.nan
    assert MultiHeadAttention(D, H)(x, mask=TARGET)[0, 0].isnan().all()


def test_a_finite_query_that_no_query_attends_to_keeps_its_value() -> None:
    x, attention = torch.randn(B, T, D), MultiHeadAttention(D, H)
    other = x.clone()
    other[:, T - 1] += 1
    mask = torch.ones(1, 1, T, dtype=torch.bool)
    mask[..., T - 1] = False
    one, two = attention(x, mask=mask), attention(other, mask=mask)
    torch.testing.assert_close(one[:, : T - 1], two[:, : T - 1])
    assert (one[:, T - 1] - two[:, T - 1]).abs().max() > 1e-3
