"""Encoder and decoder: padding, causality, the cache, and torch's stacks beside them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import HIDDEN, MANY, NORMS, B, D, H, S, T, check_causality, gradients, must_fail
from torch import Tensor, nn

from limelight.bridge import to_torch
from limelight.nn import BlockConfig, Decoder, DecoderBlock, DecoderCache, Encoder, causal_mask, padding_mask
from limelight.nn.blocks import PreNorm

NEAR: dict[str, Any] = {"rtol": 0.0, "atol": 1e-5}

LAYOUTS = {
    "right": lambda lengths, size: padding_mask(lengths, size),
    "left": lambda lengths, size: padding_mask(lengths, size).flip(-1),
    "scattered": lambda lengths, size: padding_mask(lengths, size)[
        ..., torch.randperm(size, generator=torch.Generator().manual_seed(3))
    ],
}


def encoder(norm: str = "post", **more: Any) -> Encoder:
    return Encoder(3, BlockConfig(D, H, HIDDEN, norm=norm, **more))


def decoder(norm: str = "post", **more: Any) -> Decoder:
    return Decoder(2, BlockConfig(D, H, HIDDEN, norm=norm, **more))


# ---- the content and the amount of padding do not change real tokens


def spread(tokens: list[Tensor], mask: Tensor, fill: float) -> Tensor:
    """The sequences where the mask is True, and `fill` elsewhere."""
    x = torch.full((len(tokens), mask.shape[-1], D), fill)
    for row, sequence, real in zip(x, tokens, mask[:, 0], strict=True):
        row[real] = sequence
    return x


def check_encoder_padding(model: Callable[..., Tensor], layout: str) -> None:
    tokens = [torch.randn(n, D) for n in (5, 1, 3)]
    alone = torch.cat([model(sequence[None], None)[0] for sequence in tokens])
    for size, fill in ((5, 0.0), (5, 50.0), (11, -50.0), (MANY, 1.0)):
        mask = LAYOUTS[layout]([5, 1, 3], size)
        x = spread(tokens, mask, fill).requires_grad_()
        output = model(x, mask)
        torch.testing.assert_close(output[mask[:, 0]], alone, rtol=1e-6, atol=1e-6)
        (gradient,) = gradients(output[mask[:, 0]], x)
        assert gradient[~mask[:, 0]].eq(0).all(), "padding has a gradient"
        assert gradient[mask[:, 0]].ne(0).any(-1).all()


@NORMS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding_does_not_change_real_tokens_in_an_encoder(norm: str, layout: str) -> None:
    model = encoder(norm)
    check_encoder_padding(model, layout)
    check_encoder_padding(lambda x, mask: model(x, mask, causal=True), layout)
    must_fail(check_encoder_padding, lambda x, mask: model(x), layout)


def check_decoder_padding(model: Callable[..., Tensor], layout: str) -> None:
    targets, sources = [torch.randn(n, D) for n in (5, 1, 3)], [torch.randn(n, D) for n in (2, 7, 1)]
    pairs = zip(targets, sources, strict=True)
    alone = torch.cat([model(t[None], s[None], None, None)[0] for t, s in pairs])
    for size, source_size, fill in ((5, 7, 0.0), (5, 7, 50.0), (11, 13, -50.0), (MANY, MANY, 1.0)):
        mask = LAYOUTS[layout]([5, 1, 3], size)
        memory_mask = LAYOUTS[layout]([2, 7, 1], source_size)
        x = spread(targets, mask, fill).requires_grad_()
        memory = spread(sources, memory_mask, fill).requires_grad_()
        output = model(x, memory, mask, memory_mask)
        torch.testing.assert_close(output[mask[:, 0]], alone, rtol=1e-6, atol=1e-6)
        for inputs, real in ((x, mask), (memory, memory_mask)):
            (gradient,) = gradients(output[mask[:, 0]], inputs)
            assert gradient[~real[:, 0]].eq(0).all(), "padding has a gradient"
            assert gradient[real[:, 0]].ne(0).any(-1).all()


@NORMS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding_does_not_change_real_tokens_in_a_decoder(norm: str, layout: str) -> None:
    model = decoder(norm)
    check_decoder_padding(model, layout)
    must_fail(check_decoder_padding, lambda x, memory, mask, memory_mask: model(x, memory, mask), layout)
    if layout == "left":  # on the right, the causal mask alone hides the target's padding
        must_fail(
            check_decoder_padding, lambda x, m, mask, memory_mask: model(x, m, None, memory_mask), layout
        )


def count_tokens(model: nn.Module) -> dict[str, list[int]]:
    """The number of tokens that each token-wise layer computes, recorded when the model runs."""
    counts: dict[str, list[int]] = {}
    for name, part in model.named_modules():
        if isinstance(part, nn.Linear | nn.LayerNorm):
            of_layer = counts[name] = []
            part.register_forward_hook(
                lambda part, inputs, output, of_layer=of_layer: of_layer.append(len(inputs[0]))
            )
    return counts


@NORMS
def test_padding_is_not_computed_and_its_output_is_zero(norm: str) -> None:
    mask, memory_mask = padding_mask([5, 2, 3]), padding_mask([4, 6, 7])
    x = torch.randn(B, T, D).masked_fill(~mask.transpose(1, 2), torch.nan)
    memory = torch.randn(B, S, D).masked_fill(~memory_mask.transpose(1, 2), torch.nan)
    for model, inputs in ((encoder(norm), (x, mask)), (decoder(norm), (x, memory, mask, memory_mask))):
        counts = count_tokens(model)
        output = model(*inputs)
        assert output[~mask[:, 0]].eq(0).all()
        assert output.isfinite().all()
        for name, tokens in counts.items():
            of_memory = "cross_attention.key" in name or "cross_attention.value" in name
            assert tokens == [17 if of_memory else 10], f"{name} computed {tokens} tokens"


def test_the_source_of_a_cache_is_projected_without_its_padding() -> None:
    model, memory_mask = decoder().eval(), padding_mask([4, 6, 7])
    memory = torch.randn(B, S, D).masked_fill(~memory_mask.transpose(1, 2), torch.nan)
    with torch.no_grad():
        cache = model.start(memory, memory_mask, capacity=T)
        assert model.step(torch.randn(B, 1, D), cache).isfinite().all()


@NORMS
def test_one_mask_may_apply_to_the_whole_batch(norm: str) -> None:
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    mask, memory_mask = padding_mask([3], T), padding_mask([4], S)
    each, each_memory = mask.expand(B, 1, T), memory_mask.expand(B, 1, S)
    model, reader = encoder(norm), decoder(norm).eval()
    torch.testing.assert_close(model(x, mask), model(x, each), rtol=0, atol=0)
    whole = reader(x, memory, each, each_memory)
    torch.testing.assert_close(reader(x, memory, mask, memory_mask), whole, rtol=0, atol=0)
    with torch.no_grad():
        cache = reader.start(memory, memory_mask, capacity=T)
        index = torch.tensor([2, 0])
        cache.reorder(index)
        steps = reader.step(x[index, :3], cache)
    torch.testing.assert_close(steps, whole[index, :3], **NEAR)


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_dropout_and_activation_reach_every_block(stack: type) -> None:
    model = stack(2, BlockConfig(D, H, HIDDEN, dropout=0.25, activation="gelu", norm="pre"))
    for block in model.blocks:
        assert block.self_attention.dropout == block.feedforward.dropout.p == 0.25
        assert block.feedforward.activation is F.gelu
        assert isinstance(block.self_residual, PreNorm)


def test_a_mask_with_many_rows_is_not_a_padding_mask() -> None:
    model, x = encoder(), torch.randn(B, T, D)
    torch.testing.assert_close(model(x, causal_mask(T)), model(x, causal=True), **NEAR)
    mask = padding_mask([5, 2, 3])
    open_rows = model(x, mask.expand(B, T, T))
    torch.testing.assert_close(open_rows[mask[:, 0]], model(x, mask)[mask[:, 0]], **NEAR)
    assert open_rows[~mask[:, 0]].ne(0).any()


# ---- causality, in training and in evaluation


MASKINGS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "open": lambda x: None,
    "full": lambda x: padding_mask([x.shape[1]] * B),
    "rows": lambda x: torch.ones(1, x.shape[1], x.shape[1], dtype=torch.bool),
}


@NORMS
@pytest.mark.parametrize("masking", MASKINGS)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_a_later_target_never_changes_an_earlier_output(norm: str, masking: str, training: bool) -> None:
    mask, memory = MASKINGS[masking], torch.randn(B, S, D)
    model = decoder(norm).train(training)
    check_causality(lambda x: model(x, memory, mask(x)))
    alone = encoder(norm).train(training)
    check_causality(lambda x: alone(x, mask(x), causal=True))
    must_fail(check_causality, lambda x: alone(x, mask(x)))


# ---- one token at a time = all at once


def check_steps(model: Decoder, step: Callable[[Tensor, DecoderCache], Tensor], sizes: list[int]) -> None:
    length = sum(sizes)
    x, memory, memory_mask = torch.randn(B, length, D), torch.randn(B, S, D), padding_mask([2, 7, 0])
    with torch.no_grad():
        whole = model(x, memory, memory_mask=memory_mask)
        cache = model.start(memory, memory_mask, capacity=length)
        pieces = [step(part, cache) for part in x.split(sizes, 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, **NEAR)


@NORMS
@pytest.mark.parametrize("sizes", [[1] * T, [1] * MANY, [3, 1, 64, 2]], ids=["few", "many", "mixed"])
def test_one_token_at_a_time_equals_all_at_once(norm: str, sizes: list[int]) -> None:
    model = decoder(norm).eval()
    check_steps(model, model.step, sizes)

    def without_cache(part: Tensor, cache: DecoderCache) -> Tensor:
        cache.decoded = model.start(torch.randn(B, S, D), capacity=99).decoded
        return model.step(part, cache)

    must_fail(check_steps, model, without_cache, sizes)

    def unmasked(part: Tensor, cache: DecoderCache) -> Tensor:
        cache.memory_mask = None
        return model.step(part, cache)

    must_fail(check_steps, model, unmasked, sizes)


def check_reorder(model: Decoder, reorder: Callable[[DecoderCache, Tensor], None], rows: list[int]) -> None:
    index = torch.tensor(rows)
    x, memory, memory_mask = torch.randn(B, T, D), torch.randn(B, S, D), padding_mask([2, 7, 4])
    with torch.no_grad():
        cache = model.start(memory, memory_mask, capacity=T)
        model.step(x[:, :3], cache)
        reorder(cache, index)
        assert cache.length == 3
        rest = model.step(x[index, 3:], cache)
        whole = model(x[index], memory[index], memory_mask=memory_mask[index])
    torch.testing.assert_close(rest, whole[:, 3:], **NEAR)


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0, 0, 2], [1]])
def test_a_reordered_cache_continues_the_selected_sequences(rows: list[int]) -> None:
    model = decoder().eval()
    check_reorder(model, DecoderCache.reorder, rows)

    def without_the_mask(cache: DecoderCache, index: Tensor) -> None:
        mask: Any = cache.memory_mask
        cache.reorder(index)
        cache.memory_mask = mask.repeat(2, 1, 1)[: len(index)]

    must_fail(check_reorder, model, without_the_mask, rows)

    def without_decoded_positions(cache: DecoderCache, index: Tensor) -> None:
        cache.reorder(index.new_zeros(len(index)))

    must_fail(check_reorder, model, without_decoded_positions, rows)


def test_the_source_is_projected_once() -> None:
    model = decoder().eval()
    calls = []
    for block in model.blocks:
        assert isinstance(block, DecoderBlock)
        block.cross_attention.key.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        cache = model.start(torch.randn(B, S, D), capacity=T)
        for _ in range(T):
            model.step(torch.randn(B, 1, D), cache)
    assert len(calls) == len(model.blocks)


def test_a_cache_of_another_decoder_is_rejected() -> None:
    cache = Decoder(3, BlockConfig(D, H, HIDDEN)).start(torch.randn(B, S, D), capacity=T)
    with pytest.raises(ValueError, match="cache is of 3 blocks; allowed: 2 blocks"):
        decoder().step(torch.randn(B, 1, D), cache)


def test_another_batch_size_is_rejected_and_does_not_change_the_cache() -> None:
    model = decoder()
    cache = model.start(torch.randn(B, S, D), capacity=T)
    with pytest.raises(ValueError, match="batch size of x is 1; allowed: 3, that of the cache"):
        model.step(torch.randn(1, 1, D), cache)
    assert [kept.length for kept in cache.decoded] == [0, 0]


# ---- whole stacks


@NORMS
def test_stacks_equal_torchs(norm: str) -> None:
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    mask, memory_mask = padding_mask([5, 2, 3]), padding_mask([2, 7, 4])
    our_encoder = encoder(norm)
    expected = to_torch(our_encoder)(x, src_key_padding_mask=~mask[:, 0])
    torch.testing.assert_close(our_encoder(x, mask)[mask[:, 0]], expected[mask[:, 0]], **NEAR)
    our_decoder = decoder(norm)
    expected = to_torch(our_decoder)(
        x,
        memory,
        tgt_mask=~causal_mask(T)[0],
        tgt_key_padding_mask=~mask[:, 0],
        memory_key_padding_mask=~memory_mask[:, 0],
    )
    got = our_decoder(x, memory, mask, memory_mask)
    torch.testing.assert_close(got[mask[:, 0]], expected[mask[:, 0]], **NEAR)


def test_a_pre_norm_stack_ends_with_a_norm_and_a_post_norm_stack_does_not() -> None:
    assert isinstance(encoder("pre").norm, nn.LayerNorm)
    assert isinstance(decoder("pre").norm, nn.LayerNorm)
    assert not list(encoder("post").norm.parameters())


def test_encoder_and_decoder_may_have_different_depths() -> None:
    memory = Encoder(1, BlockConfig(D, H, HIDDEN))(torch.randn(B, S, D))
    assert Decoder(5, BlockConfig(D, H, HIDDEN))(torch.randn(B, T, D), memory).shape == (B, T, D)


def test_the_same_seed_gives_the_same_weights() -> None:
    def initial(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return nn.ModuleDict({"encoder": encoder(), "decoder": decoder()}).state_dict()

    first, second, other = initial(1), initial(1), initial(2)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["encoder.blocks.0.self_attention.query.weight"],
                           other["encoder.blocks.0.self_attention.query.weight"])  # fmt: skip


@pytest.mark.parametrize(("batch", "size"), [(0, T), (1, 1), (B, 0)])
def test_empty_and_tiny_batches_work(batch: int, size: int) -> None:
    x, memory, mask = torch.randn(batch, size, D), torch.randn(batch, S, D), padding_mask([S] * batch, S)
    assert encoder()(x, padding_mask([size] * batch, size)).shape == (batch, size, D)
    assert decoder()(x, memory, None, mask).shape == (batch, size, D)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Encoder(0, BlockConfig(D, H, HIDDEN)), "depth is 0; allowed: an integer of at least 1"),
        (lambda: encoder()(torch.randn(B, T, D + 1)), r"x is of shape \(3, 5, 23\)"),
        (lambda: encoder()(torch.randn(B, T, D), padding_mask([4] * B)), r"mask is of shape \(3, 1, 4\)"),
        (lambda: encoder()(torch.randn(B, T, D), torch.ones(B, T)), "mask is of type torch.float32"),
        (lambda: decoder()(torch.randn(B, T, D), torch.randn(B, S, 2)), r"memory is of shape \(3, 7, 2\)"),
        (
            lambda: decoder().start(torch.randn(B, S, D), torch.ones(B, T, S).bool(), capacity=3),
            r"memory_mask is of shape \(3, 5, 7\)",
        ),
        (lambda: decoder().start(torch.randn(B, S, D), capacity=0), "capacity is 0"),
        (lambda: decoder().start(torch.randn(B, S, 2), capacity=3), r"memory is of shape \(3, 7, 2\)"),
        (
            lambda: decoder()(torch.randn(B, T, D), torch.randn(2, S, D)),
            "batch size of memory is 2; allowed: 3, that of x",
        ),
        (
            lambda: decoder("pre").step(
                torch.randn(B, 1, 2), decoder().start(torch.randn(B, S, D), capacity=3)
            ),
            r"x is of shape \(3, 1, 2\)",
        ),
    ],
)
def test_invalid_arguments_raise_an_error_that_names_them(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
