"""Variants of attention and of blocks: one contract for all, with a cache and in the fast decoders."""

import pytest
import torch
from support import B, S, T, assert_same, flat, gradients, must_fail, roughen
from torch import Tensor

from limelight.errors import WrongInput
from limelight.nn import (
    AttentionVariant,
    BlockConfig,
    Decoder,
    DecoderOnly,
    Encoder,
    FastDecoder,
    FastDecoderOnly,
    MultiHeadAttention,
    causal_mask,
    padding_mask,
    window_mask,
)
from limelight.view import watch

D, H, HIDDEN, MANY = 24, 6, 29, 19  # six heads of width 4
BLOCKS = {
    "plain": BlockConfig(D, H, HIDDEN),
    "rms": BlockConfig(D, H, HIDDEN, norm="pre-rms"),
    "post-rms": BlockConfig(D, H, HIDDEN, norm="post-rms"),
    "swiglu": BlockConfig(D, H, HIDDEN, feedforward="swiglu", norm="pre"),
    "geglu": BlockConfig(D, H, HIDDEN, feedforward="geglu", bias="none"),
    "rotary": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(positions="rotary")),
    "interleaved": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(positions="rotary-interleaved")),
    "alibi": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(positions="alibi")),
    "grouped": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(key_value_heads=2)),
    "multi-query": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(key_value_heads=1)),
    "query-key-norm": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(query_key_norm=True)),
    "window": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(window=3)),
    "sinks": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(window=3, sinks=2)),
    "all": BlockConfig(
        D, H, HIDDEN, feedforward="swiglu", norm="pre-rms", bias="none",
        attention=AttentionVariant(3, "rotary", True, 5, 1),
    ),
    "alibi-grouped": BlockConfig(D, H, HIDDEN, attention=AttentionVariant(2, "alibi", window=4)),
}  # fmt: skip
VARIANTS = pytest.mark.parametrize("name", BLOCKS)


def build(name: str, depth: int = 2) -> DecoderOnly:
    torch.manual_seed(3)
    return roughen(DecoderOnly(depth, BLOCKS[name])).eval()


@VARIANTS
@torch.no_grad()
def test_cached_steps_equal_the_whole_sequence(name: str) -> None:
    decoder, x = build(name), torch.randn(B, MANY, D)
    expected, cache = decoder(x), decoder.start(capacity=MANY)
    parts = [decoder.step(part, cache) for part in x.split((7, 1, 1, 5, 5), 1)]
    assert_same(torch.cat(parts, 1), expected)
    assert cache.length == MANY
    must_fail(assert_same, torch.cat([decoder.step(x[:, :7], decoder.start(capacity=7))] * 2, 1), expected)


@VARIANTS
@torch.no_grad()
def test_the_fast_steps_equal_the_whole_sequence(name: str) -> None:
    decoder, x = build(name), torch.randn(B, MANY, D)
    fast = FastDecoderOnly(decoder)
    expected = decoder(x)
    first, cache = fast.start(x[:, :4], capacity=MANY)
    steps = [fast.step(x[:, t], cache) for t in range(4, MANY)]
    got = torch.cat((first, torch.stack(steps, 1)), 1)
    assert_same(got, expected)
    must_fail(assert_same, got[:, :-1], expected[:, 1:])
    with pytest.raises(WrongInput, match=f"cache is of {MANY} positions"):
        fast.step(x[:, 0], cache)
    # Reordered rows continue like the rows that they are copies of.
    _, cache = fast.start(x[:, :4], capacity=MANY)
    cache.reorder(torch.tensor([2, 0]))
    assert_same(fast.step(x[[2, 0], 4], cache), expected[[2, 0], 4])


@VARIANTS
@torch.no_grad()
def test_the_fast_decoder_with_a_memory_equals_the_decoder(name: str) -> None:
    torch.manual_seed(3)
    decoder = roughen(Decoder(2, BLOCKS[name])).eval()
    x, memory = torch.randn(B, MANY, D), torch.randn(B, S, D)
    for mask in (None, padding_mask([S, 2, 5])):
        for rows in (slice(B), slice(1)):
            fast, of_rows = FastDecoder(decoder), None if mask is None else mask[rows]
            cache = fast.start(memory[rows], of_rows, capacity=MANY)
            steps = [fast.step(x[rows, t], cache) for t in range(MANY)]
            assert_same(torch.stack(steps, 1), decoder(x[rows], memory[rows], memory_mask=of_rows))


@VARIANTS
def test_a_later_position_never_changes_an_earlier_output(name: str) -> None:
    decoder, x = build(name), torch.randn(B, MANY, D)
    changed = x.clone()
    changed[:, 11:] += torch.randn(D)
    for mode in (False, True):
        decoder.train(mode)
        torch.testing.assert_close(decoder(x)[:, :11], decoder(changed)[:, :11])
        must_fail(torch.testing.assert_close, decoder(x)[:, 11:], decoder(changed)[:, 11:])


@VARIANTS
def test_training_with_bfloat16_autocast_is_close_to_float32(name: str) -> None:
    decoder, x = build(name).train(), torch.randn(B, MANY, D)
    exact = decoder(x)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = decoder(x)
    assert_same(rounded.bfloat16(), exact.bfloat16())
    parameters = list(decoder.parameters())
    got, expected = (flat(gradients(output, *parameters)) for output in (rounded, exact))
    assert_same(got.bfloat16(), expected.bfloat16())
    must_fail(assert_same, got, expected)


@VARIANTS
def test_values_gradients_and_weights_are_the_same_watched_and_fused(name: str) -> None:
    encoder, x = roughen(Encoder(2, BLOCKS[name])).eval(), torch.randn(B, MANY, D, requires_grad=True)
    mask = padding_mask([MANY, 4, 11])
    fused = encoder(x, mask, causal=True)
    with watch(encoder) as seen:
        watched = encoder(x, mask, causal=True)
    assert_same(watched, fused)
    for one, other in zip(
        gradients(watched, x, *encoder.parameters()), gradients(fused, x, *encoder.parameters()), strict=True
    ):
        assert_same(one, other)
    weights = seen["blocks.0.self_attention.weights"][0]
    assert weights.shape == (B, H, MANY, MANY)
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(H, MANY))
    assert not weights[1, :, :, 4:].any()  # padding


@VARIANTS
def test_padding_changes_nothing_real(name: str) -> None:
    encoder, x = roughen(Encoder(2, BLOCKS[name])).eval(), torch.randn(B, MANY, D)
    padded = encoder(x, padding_mask([MANY, 4, 11]))
    assert_same(padded[1, :4], encoder(x[1:2, :4])[0])
    assert_same(padded[2, :11], encoder(x[2:3, :11])[0])


@VARIANTS
def test_each_parameter_has_a_gradient(name: str) -> None:
    decoder = build(name).train()
    decoder(torch.randn(B, MANY, D)).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in decoder.parameters())


def test_a_window_hides_what_is_far_away_but_not_the_sinks() -> None:
    mask = window_mask(T, 2, past=3, sinks=1)
    rows = [[s for s in range(3 + T) if mask[0, t, s]] for t in range(T)]
    assert rows == [[0, 2, 3, 4], [0, 3, 4, 5], [0, 4, 5, 6], [0, 5, 6, 7], [0, 6, 7]]
    seen = build("sinks", depth=1)
    with watch(seen) as found:
        seen(torch.randn(1, MANY, D))
    allowed = causal_mask(MANY) & window_mask(MANY, 3, sinks=2)
    weights = found["blocks.0.self_attention.weights"][0]
    assert torch.equal(weights[0, 0] > 0, allowed[0])
    with pytest.raises(WrongInput, match="window, sinks"):
        window_mask(T, 0)


def test_groups_of_heads_share_keys_and_values() -> None:
    grouped = roughen(MultiHeadAttention(D, H, variant=AttentionVariant(key_value_heads=2)))
    assert grouped.key.weight.shape == (2 * 4, D)
    full, x = MultiHeadAttention(D, H), torch.randn(B, T, D)

    def copied(repeats: int) -> Tensor:
        weights = grouped.state_dict()
        for part in ("key", "value"):
            for kind in ("weight", "bias"):
                heads = weights[f"{part}.{kind}"].unflatten(0, (2, 4))
                spread = (
                    heads.repeat_interleave(3, 0)
                    if repeats == 3
                    else heads.repeat(3, *[1] * (heads.dim() - 1))
                )
                weights[f"{part}.{kind}"] = spread.flatten(0, 1)
        full.load_state_dict(weights)
        return full(x)

    assert_same(copied(3), grouped(x))
    must_fail(assert_same, copied(2), grouped(x))


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (AttentionVariant(key_value_heads=4), "key_value_heads is 4; allowed: a divisor of heads=6"),
        (AttentionVariant(key_value_heads=0), "key_value_heads is 0"),
        (AttentionVariant(positions="absolute"), "positions is 'absolute'; allowed: 'none' or 'rotary'"),
    ],
)
def test_invalid_variants_are_refused(variant: AttentionVariant, message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        MultiHeadAttention(D, H, variant=variant)


def test_an_unknown_feed_forward_network_is_refused() -> None:
    with pytest.raises(WrongInput, match="feedforward is 'double'; allowed: 'plain' or 'swiglu' or 'geglu'"):
        Encoder(1, BlockConfig(D, H, HIDDEN, feedforward="double"))
