from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import (
    DTYPES,
    HIDDEN,
    MANY,
    NORMS,
    B,
    D,
    H,
    S,
    T,
    assert_same,
    convert_gradients,
    flat,
    gradients,
    must_fail,
    roughen,
)
from torch import Tensor, nn

from limelight.bridge import from_torch
from limelight.nn import (
    BlockConfig,
    DecoderBlock,
    EncoderBlock,
    MultiHeadAttention,
    causal_mask,
    padding_mask,
)
from limelight.nn.blocks import PostNorm, PreNorm

BLOCKS = pytest.mark.parametrize("block", [EncoderBlock, DecoderBlock])


def options(norm: str, activation: str, dtype: torch.dtype) -> dict[str, Any]:
    return {
        "d_model": D,
        "nhead": H,
        "dim_feedforward": HIDDEN,
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm == "pre",
        "batch_first": True,
        "dtype": dtype,
    }


def inputs_of(block: type) -> tuple[Tensor, ...]:
    return (torch.randn(B, T, D),) if block is EncoderBlock else (torch.randn(B, T, D), torch.randn(B, S, D))


def check_parity(
    ours: nn.Module,
    theirs: nn.Module,
    inputs: list[Tensor],
    our_masks: dict[str, Any],
    their_masks: dict[str, Any],
) -> None:
    """Outputs and the gradients of all inputs and parameters are equal."""
    output, expected = ours(*inputs, **our_masks), theirs(*inputs, **their_masks)
    assert_same(output, expected)
    for our, their in zip(gradients(output, *inputs), gradients(expected, *inputs), strict=True):
        assert_same(our, their)
    learning = convert_gradients(deepcopy(theirs), gradients(expected, *theirs.parameters()))
    learnt = dict(learning.named_parameters())
    names, parameters = zip(*ours.named_parameters(), strict=True)
    assert_same(flat(gradients(output, *parameters)), flat(learnt[name] for name in names))


@DTYPES
@NORMS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("length", [T, MANY], ids=["few keys", "many keys"])
def test_an_encoder_block_equals_torchs_layer(
    dtype: torch.dtype, norm: str, activation: str, length: int
) -> None:
    theirs = roughen(nn.TransformerEncoderLayer(**options(norm, activation, dtype)))
    ours = from_torch(theirs)
    x = torch.randn(B, length, D, dtype=dtype, requires_grad=True)
    mask = padding_mask([length, 1, 3], length)
    check_parity(ours, theirs, [x], {}, {})
    check_parity(ours, theirs, [x], {"mask": mask}, {"src_key_padding_mask": ~mask[:, 0]})
    check_parity(ours, theirs, [x], {"causal": True}, {"src_mask": ~causal_mask(length)[0]})
    must_fail(check_parity, ours, theirs, [x], {}, {"src_key_padding_mask": ~mask[:, 0]})
    ours.self_residual.norm, ours.feedforward_residual.norm = theirs.norm2, theirs.norm1
    must_fail(check_parity, ours, theirs, [x], {}, {})


@DTYPES
@NORMS
@pytest.mark.parametrize("length", [T, MANY], ids=["few keys", "many keys"])
def test_a_decoder_block_equals_torchs_layer(dtype: torch.dtype, norm: str, length: int) -> None:
    theirs = roughen(nn.TransformerDecoderLayer(**options(norm, "relu", dtype)))
    ours = from_torch(theirs)
    x = torch.randn(B, length, D, dtype=dtype, requires_grad=True)
    memory = torch.randn(B, length + 2, D, dtype=dtype, requires_grad=True)
    mask, memory_mask = padding_mask([length, 2, 3], length), padding_mask([1, length + 2, 4])
    their_masks = {"tgt_mask": ~causal_mask(length)[0]}
    check_parity(ours, theirs, [x, memory], {}, their_masks)
    their_masks["tgt_key_padding_mask"] = ~mask[:, 0]
    their_masks["memory_key_padding_mask"] = ~memory_mask[:, 0]
    check_parity(ours, theirs, [x, memory], {"mask": mask, "memory_mask": memory_mask}, their_masks)
    must_fail(check_parity, ours, theirs, [x, memory], {"mask": mask}, their_masks)
    must_fail(check_parity, ours, theirs, [x, memory], {"memory_mask": memory_mask}, their_masks)


@NORMS
@BLOCKS
def test_each_sublayer_has_its_own_norm_and_every_parameter_gets_a_gradient(block: type, norm: str) -> None:
    module = block(BlockConfig(D, H, HIDDEN, norm=norm))
    norms = [part for part in module.modules() if isinstance(part, nn.LayerNorm)]
    assert len(norms) == (2 if block is EncoderBlock else 3)
    inputs = inputs_of(block)
    module(*inputs).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        # A bias of the keys shifts all scores of a row equally: the softmax does not depend on it.
        assert name.endswith("key.bias") or parameter.grad.ne(0).any(), name


@BLOCKS
def test_post_norm_outputs_are_normalised_and_pre_norm_outputs_are_a_plain_sum(block: type) -> None:
    inputs = inputs_of(block)
    post = block(BlockConfig(D, H, HIDDEN, norm="post"))(*inputs)
    torch.testing.assert_close(post.mean(-1), torch.zeros(B, T), rtol=0, atol=1e-5)
    pre = block(BlockConfig(D, H, HIDDEN, norm="pre"))
    for parameter in pre.parameters():
        nn.init.zeros_(parameter)
    torch.testing.assert_close(pre(*inputs), inputs[0], rtol=0, atol=0)


@BLOCKS
def test_dropout_acts_in_training_only(block: type) -> None:
    module = block(BlockConfig(D, H, HIDDEN, dropout=0.5))
    inputs = inputs_of(block)
    assert not torch.equal(module(*inputs), module(*inputs))
    module.eval()
    assert torch.equal(module(*inputs), module(*inputs))


def dropouts(module: nn.Module) -> dict[str, float]:
    return {
        name: part.p if isinstance(part, nn.Dropout) else part.dropout
        for name, part in module.named_modules()
        if isinstance(part, nn.Dropout | MultiHeadAttention)
    }


@BLOCKS
def test_inner_dropout_applies_to_attention_weights_and_hidden_units(block: type) -> None:
    for name, rate in dropouts(block(BlockConfig(D, H, HIDDEN, dropout=0.25, inner_dropout=0.0))).items():
        assert rate == (0.25 if "residual" in name else 0.0), name


@BLOCKS
@NORMS
def test_dropout_and_activation_reach_every_part(block: type, norm: str) -> None:
    module = block(BlockConfig(D, H, HIDDEN, dropout=0.25, activation="gelu", norm=norm))
    rates = dropouts(module)
    assert set(rates.values()) == {0.25}
    assert len(rates) == (4 if block is EncoderBlock else 6)
    assert module.feedforward.activation is F.gelu


@pytest.mark.parametrize("residual", [PostNorm, PreNorm])
def test_dropout_applies_to_the_output_of_the_sublayer(residual: type) -> None:
    def shift(x: Tensor) -> Tensor:
        return torch.arange(D).expand_as(x) * 1.0

    module, x = residual(nn.LayerNorm(D), 0.5), torch.randn(B, T, D)
    assert not torch.equal(module(x, shift), module(x, shift))
    module.eval()
    assert torch.equal(module(x, shift), module(x, shift))


@BLOCKS
def test_an_unknown_norm_raises_an_error_that_names_it(block: type) -> None:
    with pytest.raises(ValueError, match="norm is 'middle'; allowed: 'post', 'pre', 'post-rms' or 'pre-rms'"):
        block(BlockConfig(D, H, HIDDEN, norm="middle"))


def test_names_in_a_state_dict_are_readable() -> None:
    names = set(DecoderBlock(BlockConfig(D, H, HIDDEN)).state_dict())
    assert {"cross_attention.query.weight", "self_residual.norm.weight", "feedforward.expand.bias"} <= names
