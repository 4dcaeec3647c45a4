import math
from typing import Any

import pytest
import torch
from support import (
    DTYPES,
    EXACT,
    MANY,
    B,
    D,
    H,
    K,
    S,
    T,
    assert_same,
    check_causality,
    check_equivariance,
    convert_gradients,
    flat,
    gradients,
    heads_by_hand,
    must_fail,
    random_mask,
    roughen,
)
from torch import Tensor, nn

from limelight.bridge import to_torch
from limelight.nn import MultiHeadAttention, Packing, causal_mask, padding_mask
from limelight.view import watch

M = 13


def test_projections_start_with_xavier_and_zero_biases() -> None:
    attention = MultiHeadAttention(D, H, memory_width=M)
    for projection, columns in (
        (attention.query, D),
        (attention.key, M),
        (attention.value, M),
        (attention.output, D),
    ):
        bound = math.sqrt(6 / (D + columns))
        assert projection.weight.abs().max() <= bound
        assert projection.weight.detach().std() == pytest.approx(bound / math.sqrt(3), rel=0.15)
        assert projection.bias.eq(0).all()
    assert MultiHeadAttention(D, H, bias=False).output.bias is None


def test_a_head_is_attention_on_its_own_columns() -> None:
    attention = roughen(MultiHeadAttention(D, H, memory_width=M))
    x, memory = torch.randn(B, T, D), torch.randn(B, S, M)
    parts = {name: getattr(attention, name) for name in ("query", "key", "value", "output")}
    expected = heads_by_hand(
        {name: part.weight for name, part in parts.items()},
        {name: part.bias for name, part in parts.items()},
        x,
        memory,
    )
    torch.testing.assert_close(attention(x, memory).double(), expected, rtol=1e-5, atol=1e-6)


def check_parity(ours: MultiHeadAttention, length: int, masking: str) -> None:
    """Outputs, weights and every gradient equal those of torch.nn.MultiheadAttention, watched or not."""
    theirs, dtype = to_torch(ours), ours.output.weight.dtype
    cross = ours.memory_width != ours.width
    x = torch.randn(B, T if cross else length, D, dtype=dtype, requires_grad=True)
    memory = torch.randn(B, length + 2, M, dtype=dtype, requires_grad=True) if cross else x
    size, keys = x.shape[1], memory.shape[1]
    mask = {
        "open": torch.ones(1, 1, keys, dtype=torch.bool),
        "padding": padding_mask([keys, 1, 3], keys),
        "any": random_mask(B, size, keys),
        "causal": causal_mask(size, keys - size),
    }[masking]
    # Masks of torch.nn are True where attention is forbidden, and have a copy for each head.
    forbidden = ~mask.expand(B, size, keys).repeat_interleave(H, 0)
    expected, expected_weights = theirs(x, memory, memory, attn_mask=forbidden, average_attn_weights=False)
    inputs = [x, memory] if cross else [x]
    expected_gradients = gradients(expected, *inputs)
    learning = convert_gradients(theirs, gradients(expected, *theirs.parameters()))
    with watch(ours) as seen:
        watched = ours(x, memory if cross else None, mask)
    assert_same(seen["weights"][0], expected_weights)
    for output in (watched, ours(x, memory if cross else None, mask)):
        assert_same(output, expected)
        for our, their in zip(gradients(output, *inputs), expected_gradients, strict=True):
            assert_same(our, their)
        assert_same(flat(gradients(output, *ours.parameters())), flat(learning.parameters()))


class IgnoresMask(MultiHeadAttention):
    """Accepts the mask and does not use it."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        return super()._attend(q, k, v, None, causal)


class Unscaled(MultiHeadAttention):
    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        return super()._attend(q * math.sqrt(K), k, v, mask, causal)


@DTYPES
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("masking", ["open", "padding", "any", "causal"])
@pytest.mark.parametrize("length", [T, MANY], ids=["few keys", "many keys"])
def test_values_gradients_and_weights_equal_torchs(
    dtype: torch.dtype, cross: bool, masking: str, length: int
) -> None:
    def make(kind: type[MultiHeadAttention]) -> MultiHeadAttention:
        return roughen(kind(D, H, memory_width=M if cross else None)).to(dtype)

    check_parity(make(MultiHeadAttention), length, masking)
    must_fail(check_parity, make(Unscaled), length, masking)
    if masking != "open":
        must_fail(check_parity, make(IgnoresMask), length, masking)


def test_causal_is_the_causal_mask() -> None:
    attention = MultiHeadAttention(D, H)
    for length in (T, MANY):
        x = torch.randn(B, length, D)
        masked = attention(x, mask=causal_mask(length))
        torch.testing.assert_close(attention(x, causal=True), masked, rtol=1e-5, atol=1e-6)


class Causal(nn.Module):
    def __init__(self, only_in_training: bool = False) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(D, H)
        self.only_in_training = only_in_training

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, causal=self.training or not self.only_in_training)


def test_a_causal_output_has_no_gradient_to_later_inputs() -> None:
    check_causality(Causal().train())
    check_causality(Causal().eval())
    must_fail(check_causality, MultiHeadAttention(D, H))
    must_fail(check_causality, Causal(only_in_training=True).eval())


def test_attention_without_positions_is_permutation_equivariant() -> None:
    check_equivariance(MultiHeadAttention(D, H))
    must_fail(check_equivariance, lambda x: MultiHeadAttention(D, H)(x, causal=True))


@pytest.mark.parametrize(("size", "keys"), [(1, 1), (1, S), (S, 1), (T, S), (S, T)])
@pytest.mark.parametrize("heads", [1, H, D])
@pytest.mark.parametrize("batch", [0, 1, B])
def test_unusual_shapes_equal_torchs(size: int, keys: int, heads: int, batch: int) -> None:
    ours = MultiHeadAttention(D, heads)
    x, memory = torch.randn(batch, size, D), torch.randn(batch, keys, D)
    output = ours(x, memory)
    assert output.shape == (batch, size, D)
    if batch:
        torch.testing.assert_close(output, to_torch(ours)(x, memory, memory)[0], rtol=1e-5, atol=1e-6)


def test_an_exported_layer_works_at_other_lengths() -> None:
    attention, length = MultiHeadAttention(D, H).eval(), torch.export.Dim("length", min=2, max=512)
    program = torch.export.export(attention, (torch.randn(B, T, D),), dynamic_shapes=({1: length},))
    for size in (2, MANY, 131):
        x = torch.randn(B, size, D)
        torch.testing.assert_close(program.module()(x), attention(x), rtol=1e-5, atol=1e-6)


def test_dropout_acts_in_training_and_after_the_tap() -> None:
    attention = MultiHeadAttention(D, H, dropout=0.5)
    x = torch.randn(B, T, D)
    assert not torch.equal(attention(x), attention(x))
    with watch(attention) as seen:
        first, second = attention(x), attention(x)
    assert not torch.equal(first, second)
    torch.testing.assert_close(*seen["weights"], **EXACT)
    torch.testing.assert_close(seen["weights"][0].sum(-1), torch.ones(B, H, T))
    attention.eval()
    torch.testing.assert_close(attention(x), attention(x), **EXACT)


@pytest.mark.parametrize("length", [T, MANY], ids=["few keys", "many keys"])
def test_projected_keys_and_values_can_replace_the_memory(length: int) -> None:
    attention = MultiHeadAttention(D, H, memory_width=M)
    x, memory, mask = torch.randn(B, T, D), torch.randn(B, length, M), padding_mask([length, 2, 3], length)
    projected = attention.project(memory)
    torch.testing.assert_close(attention(x, projected, mask), attention(x, memory, mask), **EXACT)


def test_packed_and_padded_tokens_give_the_same_output() -> None:
    attention = MultiHeadAttention(D, H)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    packing, memory_mask = Packing(padding_mask([5, 2, 3])), padding_mask([1, 7, 4])
    memory_packing = Packing(memory_mask)
    packed = attention(
        packing.take(x),
        memory_packing.take(memory),
        memory_mask,
        packing=packing,
        memory_packing=memory_packing,
    )
    expected = packing.take(attention(x, memory, memory_mask))
    torch.testing.assert_close(packed, expected, rtol=1e-5, atol=1e-6)
    without_mask = attention(
        packing.take(x), memory_packing.take(memory), packing=packing, memory_packing=memory_packing
    )
    torch.testing.assert_close(without_mask, packed, rtol=1e-5, atol=1e-6)
    padded = packing.take(attention(x, mask=packing.mask))
    torch.testing.assert_close(attention(packing.take(x), packing=packing), padded, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 32, "heads": 3}, "heads is 3; allowed: a divisor of width=32"),
        ({"width": 0, "heads": 1}, "width is 0; allowed: an integer of at least 1"),
        ({"width": 32, "heads": -1}, "heads is -1; allowed"),
        ({"width": 32.0, "heads": 1}, "width is 32.0; allowed"),
        ({"width": 32, "heads": 2, "memory_width": 0}, "memory_width is 0; allowed"),
        ({"width": 32, "heads": 2, "dropout": 1.5}, "dropout is 1.5; allowed: at least 0 and less than 1"),
    ],
)
def test_invalid_sizes_raise_an_error_that_names_them(arguments: dict[str, Any], message: str) -> None:
    width, heads = arguments.pop("width"), arguments.pop("heads")
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(width, heads, **arguments)


@pytest.mark.parametrize(
    ("queries", "memory", "mask", "message"),
    [
        (
            torch.ones(B, T, D, dtype=torch.long),
            None,
            None,
            "queries is of type torch.int64; .* token ids are embedded first",
        ),
        (
            torch.ones(B, D),
            None,
            None,
            r"queries is of shape \(3, 22\); allowed: \(B, T, D\) with a last axis of 22",
        ),
        (torch.ones(B, T, D + 1), None, None, r"queries is of shape \(3, 5, 23\)"),
        (torch.ones(B, T, D), torch.ones(B, S, M), None, r"memory is of shape \(3, 7, 13\)"),
        (
            torch.ones(B, T, D),
            None,
            torch.ones(B, T, dtype=torch.bool),
            r"mask\[:, None\] for a \(B, S\) mask",
        ),
        (
            torch.ones(B, T, D),
            None,
            torch.ones(B, T, S, dtype=torch.bool),
            r"allowed: \(B, T, S\) = \(3, 5, 5\)",
        ),
        (
            torch.ones(B, T, D),
            None,
            torch.ones(B, T, T),
            "torch.float32; allowed: torch.bool, .* one argument, memory",
        ),
        (
            torch.ones(B, T, D),
            None,
            torch.ones(B, T, 1, dtype=torch.bool),
            r"allowed: \(B, T, S\) = \(3, 5, 5\), where every axis but the last may be 1",
        ),
        (
            torch.ones(B, T, D),
            torch.ones(B + 1, S, D),
            None,
            "batch size of memory is 4; allowed: 3, that of the queries",
        ),
    ],
)
def test_invalid_inputs_raise_an_error_that_names_them(
    queries: Tensor, memory: Tensor | None, mask: Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(D, H)(queries, memory, mask)
