"""A decoder-only language model: causal, with a cache, and with each variant of its parts."""

import math
from typing import Any

import pytest
import torch
from support import check_same_seed_same_weights, must_fail
from torch import Tensor

from limelight.config import read
from limelight.errors import WrongInput
from limelight.models.decoder_only import DecoderOnlyConfig, LanguageModel
from limelight.models.sizes import Sizes
from limelight.nn import RMSNorm
from limelight.nn.kernels.linear import SUMS_ROWS

B, T, V = 3, 13, 29
SHAPE: dict[str, Any] = {"width": 24, "heads": 6, "depth": 2, "hidden": 19}
SIZES = Sizes(outputs=V, vocabulary=V, longest=T, shared=True)
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "GPT-2": {"positions": "learned", "activation": "gelu-tanh"},
    "Llama": {"norm": "pre-rms", "feedforward": "swiglu", "key_value_heads": 2, "tied": False},
    "query-key norm": {"query_key_norm": True, "positions": "rotary-interleaved"},
    "ALiBi": {"positions": "alibi", "feedforward": "geglu", "key_value_heads": 1},
    "window": {"window": 3, "sinks": 1, "positions": "sinusoidal", "norm": "post"},
}
needs_eight_bits = pytest.mark.skipif(not SUMS_ROWS, reason="torch without FBGEMM")
each_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


def build(variant: dict[str, Any]) -> LanguageModel:
    torch.manual_seed(3)
    model = DecoderOnlyConfig(**SHAPE, **variant).build(SIZES).eval()
    with torch.no_grad():  # weights at initialisation are small, and hide differences
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def check_causal(model: LanguageModel, tokens: Tensor) -> None:
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % V
    torch.testing.assert_close(model(changed)[:, :7], model(tokens)[:, :7])
    assert not torch.allclose(model(changed)[:, 7:], model(tokens)[:, 7:])


@each_variant
def test_a_later_token_never_changes_an_earlier_output(variant: dict[str, Any]) -> None:
    model, tokens = build(variant), torch.randint(V, (B, T))
    for mode in (False, True):
        check_causal(model.train(mode), tokens)

    class SeesTheFuture(torch.nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            return model(tokens.flip(1)).flip(1)

    must_fail(check_causal, SeesTheFuture(), tokens)


@each_variant
@torch.no_grad()
def test_steps_with_a_cache_equal_the_whole_sequence(variant: dict[str, Any]) -> None:
    model, tokens = build(variant), torch.randint(V, (B, T))
    expected = model(tokens)
    generators: list[Any] = [model, model.generator()]
    for one in generators:
        first, cache = one.start(tokens[:, :5], capacity=T)
        steps = [one.step(tokens[:, t], cache) for t in range(5, T)]
        got = torch.cat((first, torch.stack(steps, 1)), 1)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        assert cache.length == T
        must_fail(torch.testing.assert_close, got.roll(1, 1), expected)


@each_variant
@torch.no_grad()
def test_several_steps_at_once_equal_the_whole_sequence(variant: dict[str, Any]) -> None:
    model, tokens = build(variant), torch.randint(V, (1, T))
    expected, generator = model(tokens), model.generator()
    first, cache = generator.start(tokens[:, :2], capacity=T)
    parts = [first[0], *(generator.step(tokens[0, begin:end], cache) for begin, end in ((2, 7), (7, 8)))]
    cache.length = 5  # later positions are forgotten
    again = generator.step(tokens[0, 5:], cache)
    torch.testing.assert_close(torch.cat(parts), expected[0, :8], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(again, expected[0, 5:], rtol=1e-5, atol=1e-5)
    assert cache.length == T
    cache.length = 4
    must_fail(torch.testing.assert_close, generator.step(tokens[0, 5:], cache), expected[0, 5:])


@needs_eight_bits
@each_variant
@torch.no_grad()
def test_steps_in_eight_bits_are_close_to_exact_ones(
    variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokens = build(variant), torch.randint(V, (1, T))
    generator = model.generator()
    assert generator.draft() is None  # not worth it for so few weights
    monkeypatch.setattr("limelight.models.decoder_only.WORTH_DRAFTS", 0)
    draft = generator.draft()
    assert draft is not None
    _, cache = generator.start(tokens[:, :5], capacity=T)
    got = torch.cat([draft.step(tokens[0, t : t + 1], cache) for t in range(5, T)])
    expected = model(tokens)[0, 5:]

    def check(expected: Tensor) -> None:
        assert float((got - expected).norm() / expected.norm()) < 0.03

    check(expected)
    assert not torch.equal(got, expected)
    must_fail(check, expected.roll(1, 0))


@each_variant
def test_each_parameter_gets_a_gradient(variant: dict[str, Any]) -> None:
    model = build(variant).train()
    model(torch.arange(V).repeat(2, 1)[:, :T] + torch.tensor([[0], [V - T]])).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()), name


@each_variant
def test_the_inputs_of_the_output_layer_give_the_logits(variant: dict[str, Any]) -> None:
    model, tokens = build(variant), torch.randint(V, (B, T))
    torch.testing.assert_close(model.output(model(tokens, logits=False)), model(tokens))


def test_the_same_seed_gives_the_same_weights() -> None:
    check_same_seed_same_weights(lambda: DecoderOnlyConfig(**SHAPE).build(SIZES))


def test_at_initialisation_all_tokens_are_about_equally_likely() -> None:
    torch.manual_seed(3)
    model = DecoderOnlyConfig(**{**SHAPE, "width": 96}).build(SIZES)
    loss = -model(torch.randint(V, (B, T))).log_softmax(-1).mean().detach()
    assert abs(float(loss) - math.log(V)) < 0.05


def test_embedding_and_output_layer_share_one_matrix_unless_told_otherwise() -> None:
    tied, separate = build({}), build({"tied": False})
    assert tied.output.weight is tied.embedding.weight
    assert sum(p.numel() for p in separate.parameters()) == sum(p.numel() for p in tied.parameters()) + V * 24


def test_the_settings_choose_the_parts() -> None:
    model = build(VARIANTS["Llama"])
    assert isinstance(model.decoder.norm, RMSNorm)
    assert DecoderOnlyConfig(**SHAPE, **VARIANTS["Llama"]).summary == (
        "decoder-only: 2 layers, 6 heads of width 4 in 2 groups, pre-RMS-norm, rotary positions, swiglu"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, r"heads is 5; allowed: a divisor of width=24"),
        ({"key_value_heads": 4}, r"key_value_heads is 4; allowed: a divisor of heads=6"),
        ({"heads": 8, "width": 24}, r"heads is 8, of width 3; allowed with rotary: an even width"),
        ({"norm": "rms"}, r"norm is 'rms'; allowed: 'post', 'pre', 'post-rms' or 'pre-rms'"),
        ({"positions": "rope"}, r"positions is 'rope'; allowed"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        read(DecoderOnlyConfig, {**SHAPE, **settings})


def test_learned_positions_are_only_as_many_as_the_context() -> None:
    assert build({"positions": "learned"}).longest == T
    assert build({}).longest is None
    with pytest.raises(WrongInput, match=f"positions 0 to {T}; allowed: the {T} learned ones"):
        build({"positions": "learned"})(torch.zeros(1, T + 1, dtype=torch.long))
