"""Attention between packed tokens: the values and gradients of padded attention."""

from collections.abc import Sequence

import pytest
import torch
from support import EXACT, must_fail
from torch import Tensor

from limelight.nn import MultiHeadAttention, Packing, attend, padding_mask
from limelight.nn.dropout import keep_mask
from limelight.nn.kernels.packed_attention import SHORT, attend_packed, supports

B, T, S, D, H = 3, 5, 7, 24, 4
QUERIES = Packing(padding_mask([5, 2, 3], T))
MEMORY = Packing(padding_mask([1, 7, 4], S))
LEFT = Packing(padding_mask([5, 2, 3], T).flip(-1))
FULL = Packing(padding_mask([5, 5, 5], T))
CASES = {
    "itself": (QUERIES, QUERIES, False),
    "itself, causal": (QUERIES, QUERIES, True),
    "itself, no padding": (FULL, FULL, True),
    "itself, padding on the left": (LEFT, LEFT, False),
    "a memory": (QUERIES, MEMORY, False),
}
each_case = pytest.mark.parametrize(("packing", "memory", "causal"), CASES.values(), ids=CASES)


def drawn(packing: Packing, memory: Packing) -> tuple[Tensor, Tensor, Tensor]:
    def draw(tokens: int) -> Tensor:
        return torch.randn(tokens, D, dtype=torch.double, requires_grad=True)

    return draw(packing.tokens), draw(memory.tokens), draw(memory.tokens)


def padded(tokens: Sequence[Tensor], packing: Packing, memory: Packing, causal: bool) -> Tensor:
    """The usual implementation: pad, split into heads, attend, take."""
    q, k, v = (
        where.pad(x).unflatten(-1, (H, -1)).transpose(1, 2)
        for x, where in zip(tokens, (packing, memory, memory), strict=True)
    )
    return packing.take(attend(q, k, v, memory.mask.unsqueeze(1), causal=causal).transpose(1, 2).flatten(2))


def result_and_gradients(result: Tensor, tokens: Sequence[Tensor]) -> list[Tensor]:
    torch.manual_seed(2)
    return [result, *torch.autograd.grad(result, tokens, torch.randn_like(result))]


def check_same(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@each_case
def test_values_and_gradients_equal_those_of_padded_attention(
    packing: Packing, memory: Packing, causal: bool
) -> None:
    assert supports(packing, memory, causal=causal, dropout=0.0)
    tokens = drawn(packing, memory)
    found = result_and_gradients(attend_packed(*tokens, packing, memory, H, causal=causal), tokens)
    check_same(found, result_and_gradients(padded(tokens, packing, memory, causal), tokens))
    if packing is memory:
        must_fail(
            check_same, found, result_and_gradients(padded(tokens, packing, memory, not causal), tokens)
        )


def test_dropout_multiplies_the_weights_by_the_keep_mask() -> None:
    tokens = drawn(QUERIES, MEMORY)

    def ours() -> list[Tensor]:
        torch.manual_seed(3)
        return result_and_gradients(attend_packed(*tokens, QUERIES, MEMORY, H, dropout=0.4), tokens)

    def expected() -> list[Tensor]:
        q, k, v = (
            where.pad(x).unflatten(-1, (H, -1)).transpose(1, 2)
            for x, where in zip(tokens, (QUERIES, MEMORY, MEMORY), strict=True)
        )
        scores = (q @ k.mT / (D / H) ** 0.5).masked_fill(~MEMORY.mask.unsqueeze(1), -torch.inf)
        torch.manual_seed(3)
        weights = scores.softmax(-1)
        mixed = (weights * keep_mask(weights.flatten(0, 1), 0.4).view_as(weights)) @ v
        return result_and_gradients(QUERIES.take(mixed.transpose(1, 2).flatten(2)), tokens)

    check_same(ours(), expected())
    must_fail(check_same, ours(), result_and_gradients(padded(tokens, QUERIES, MEMORY, False), tokens))


def test_multi_head_attention_applies_dropout_only_in_training() -> None:
    attention = MultiHeadAttention(D, H, dropout=0.5)
    x = torch.randn(QUERIES.tokens, D)
    first, second = (attention(x, packing=QUERIES) for _ in range(2))
    assert not first.equal(second)
    attention.eval()
    expected = QUERIES.take(attention(QUERIES.pad(x), mask=QUERIES.mask))
    torch.testing.assert_close(attention(x, packing=QUERIES), expected, rtol=1e-5, atol=1e-6)


def test_values_that_are_not_finite_do_not_reach_other_sequences() -> None:
    x = torch.randn(QUERIES.tokens, D)
    x[0] = torch.nan
    mixed = attend_packed(x, x, x, QUERIES, QUERIES, H)
    assert mixed[:5].isnan().all()
    assert mixed[5:].isfinite().all()


def test_half_precision_is_close() -> None:
    attention, x = MultiHeadAttention(D, H), torch.randn(QUERIES.tokens, D)

    def run() -> list[Tensor]:
        return result_and_gradients(attention(x, packing=QUERIES).float(), list(attention.parameters()))

    expected = run()
    with torch.autocast("cpu", torch.bfloat16):
        found = run()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)


def test_an_empty_batch_gives_an_empty_result() -> None:
    nothing = Packing(padding_mask([], T))
    x = torch.randn(0, D)
    assert attend_packed(x, x, x, nothing, nothing, H).shape == (0, D)


def long(length: int) -> Packing:
    return Packing(padding_mask([length, 2, 3], length))


EMPTY = Packing(padding_mask([5, 0, 3], T))


@pytest.mark.parametrize(
    ("packing", "memory", "causal"),
    [
        (EMPTY, EMPTY, False),
        (QUERIES, EMPTY, False),
        (LEFT, LEFT, True),
        (QUERIES, MEMORY, True),
        (long(SHORT + 1), long(SHORT + 1), False),
        (QUERIES, Packing(padding_mask([1, 7])), False),
    ],
    ids=["an empty one", "an empty memory", "causal, on the left", "causal memory", "long", "batches"],
)
def test_other_inputs_need_padded_attention(packing: Packing, memory: Packing, causal: bool) -> None:
    assert not supports(packing, memory, causal=causal, dropout=0.0)


def test_long_sequences_are_supported_with_dropout() -> None:
    packing = long(SHORT + 1)
    assert supports(packing, packing, causal=True, dropout=0.1)


def test_attention_to_an_empty_memory_gives_the_output_bias() -> None:
    attention = MultiHeadAttention(D, H)
    x, memory = torch.randn(QUERIES.tokens, D), torch.randn(EMPTY.tokens, D)
    mixed = attention(x, memory, packing=QUERIES, memory_packing=EMPTY)
    torch.testing.assert_close(mixed[5:7], attention.output.bias.expand(2, -1), **EXACT)


def test_a_second_backward_pass_gives_the_same_gradients() -> None:
    tokens = drawn(QUERIES, MEMORY)
    result = attend_packed(*tokens, QUERIES, MEMORY, H)
    first, second = (torch.autograd.grad(result.sum(), tokens, retain_graph=True) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_packed_attention_works_in_inference_mode() -> None:
    q, k, v = (x.detach() for x in drawn(QUERIES, MEMORY))
    expected = attend_packed(q, k, v, QUERIES, MEMORY, H)
    with torch.inference_mode():
        found = attend_packed(q, k, v, Packing(QUERIES.mask), Packing(MEMORY.mask), H)
    torch.testing.assert_close(found, expected, **EXACT)
