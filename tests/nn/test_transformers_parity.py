"""The parts of decoder-only models, compared with the layers of GPT-2 and Llama in `transformers`."""

import warnings
from typing import Any, cast

import pytest
import torch
from support import B, assert_same, flat, gradients, must_fail, roughen
from torch import Tensor, nn

from limelight.nn import AttentionVariant, BlockConfig, DecoderOnly, EncoderBlock

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import GPT2Config, GPT2Model, LlamaConfig, LlamaModel

D, H, GROUPS, HIDDEN, T, DEPTH, V = 24, 6, 2, 29, 13, 2, 7


def gpt2() -> tuple[DecoderOnly, Any]:
    theirs: Any = cast(Any, GPT2Model)(
        GPT2Config(
            vocab_size=V, bos_token_id=0, eos_token_id=0, n_positions=T, n_embd=D, n_layer=DEPTH,
            n_head=H, n_inner=HIDDEN,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip
    nn.init.zeros_(theirs.wpe.weight)  # positions are added by the model, not by its blocks
    roughen(theirs)
    ours = DecoderOnly(DEPTH, BlockConfig(D, H, HIDDEN, activation="gelu-tanh", norm="pre"))
    for block, layer in zip(ours.blocks, theirs.h, strict=True):
        assert isinstance(block, EncoderBlock)
        own: Any = block.self_attention
        for part, weight, bias in zip(
            (own.query, own.key, own.value),
            layer.attn.c_attn.weight.chunk(3, 1),
            layer.attn.c_attn.bias.chunk(3),
            strict=True,
        ):
            copy(part, weight.T, bias)
        copy(own.output, layer.attn.c_proj.weight.T, layer.attn.c_proj.bias)
        copy(block.feedforward.expand, layer.mlp.c_fc.weight.T, layer.mlp.c_fc.bias)
        copy(block.feedforward.contract, layer.mlp.c_proj.weight.T, layer.mlp.c_proj.bias)
        copy(block.self_residual.norm, layer.ln_1.weight, layer.ln_1.bias)
        copy(block.feedforward_residual.norm, layer.ln_2.weight, layer.ln_2.bias)
    copy(ours.norm, theirs.ln_f.weight, theirs.ln_f.bias)
    return ours, theirs


def llama() -> tuple[DecoderOnly, Any]:
    theirs: Any = LlamaModel(
        LlamaConfig(
            vocab_size=V, bos_token_id=0, eos_token_id=0, hidden_size=D, intermediate_size=HIDDEN,
            num_hidden_layers=DEPTH,
            num_attention_heads=H, num_key_value_heads=GROUPS, rms_norm_eps=1e-6, max_position_embeddings=64,
        )
    )  # fmt: skip
    roughen(theirs)
    variant = AttentionVariant(key_value_heads=GROUPS, positions="rotary")
    config = BlockConfig(D, H, HIDDEN, feedforward="swiglu", norm="pre-rms", bias="none", attention=variant)
    ours = DecoderOnly(DEPTH, config)
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        assert isinstance(block, EncoderBlock)
        own: Any = block.self_attention
        feedforward: Any = block.feedforward
        for part, other in (
            (own.query, layer.self_attn.q_proj),
            (own.key, layer.self_attn.k_proj),
            (own.value, layer.self_attn.v_proj),
            (own.output, layer.self_attn.o_proj),
            (feedforward.gate, layer.mlp.gate_proj),
            (feedforward.expand, layer.mlp.up_proj),
            (feedforward.contract, layer.mlp.down_proj),
            (block.self_residual.norm, layer.input_layernorm),
            (block.feedforward_residual.norm, layer.post_attention_layernorm),
        ):
            copy(part, other.weight)
    copy(ours.norm, theirs.norm.weight)
    return ours, theirs


def of_blocks(model: nn.Module) -> list[nn.Parameter]:
    """All parameters but those of the embeddings, which a decoder-only stack does not have."""
    return [p for name, p in model.named_parameters() if not name.startswith(("wte", "wpe", "embed"))]


@torch.no_grad()
def copy(ours: Any, weight: Tensor, bias: Tensor | None = None) -> None:
    ours.weight.copy_(weight)
    if bias is not None:
        ours.bias.copy_(bias)


@pytest.mark.parametrize("build", [gpt2, llama])
def test_values_and_gradients_are_those_of_transformers(build: Any) -> None:
    torch.manual_seed(5)
    ours, theirs = build()
    x = torch.randn(B, T, D, requires_grad=True)
    got, expected = ours(x), theirs(inputs_embeds=x).last_hidden_state
    assert_same(got, expected)
    must_fail(assert_same, ours(x.flip(1)).flip(1), expected)
    assert_same(gradients(got, x)[0], gradients(expected, x)[0])
    # The same sum of squares over all weights, whose order differs.
    norms = [
        flat(gradients(out, *of_blocks(model))).square().sum()
        for out, model in ((got, ours), (expected, theirs))
    ]
    torch.testing.assert_close(*norms, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build", [gpt2, llama])
@torch.no_grad()
def test_steps_with_a_cache_are_those_of_transformers(build: Any) -> None:
    ours, theirs = build()
    x, cache, past = torch.randn(B, T, D), ours.start(capacity=T), None
    for part in x.split((4, 1, 8), 1):
        out = theirs(inputs_embeds=part, past_key_values=past, use_cache=True)
        past = out.past_key_values
        assert_same(ours.step(part, cache), out.last_hidden_state)
