from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import EXACT, HIDDEN, B, D, H, S, T, heads_by_hand, must_fail
from torch import Tensor, nn

from limelight.bridge import from_torch, projections, to_torch
from limelight.errors import WrongInput
from limelight.nn import (
    BlockConfig,
    Decoder,
    DecoderBlock,
    Encoder,
    EncoderBlock,
    MultiHeadAttention,
    Tap,
    causal_mask,
)
from limelight.view import watch

M = 13
LINEAR: Any = nn.Linear(2, 3)
NEAR: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


def check_projections(
    read: Callable[[Any], dict[str, Tensor]], module: nn.Module, widths: dict[str, int]
) -> None:
    """Attention computed by hand with these matrices equals the output of the module."""
    weights = read(module)
    assert {name: tuple(w.shape) for name, w in weights.items()} == {
        name: (D, width) for name, width in widths.items()
    }
    x, memory = torch.randn(T, D), torch.randn(S, widths["key"])
    by_hand = heads_by_hand(weights, {name: torch.zeros(D) for name in weights}, x, memory).float()
    if isinstance(module, nn.MultiheadAttention):
        output = module(x, memory, memory)[0]
    else:
        output = module(x[None], memory[None])[0]
    torch.testing.assert_close(by_hand, output, **NEAR)


@pytest.mark.parametrize("memory_width", [D, M], ids=["one width", "two widths"])
@pytest.mark.parametrize("whose", ["torch's", "ours"])
def test_projections_are_the_four_matrices(memory_width: int, whose: str) -> None:
    if whose == "ours":
        module: nn.Module = MultiHeadAttention(D, H, memory_width=memory_width)
    else:
        module = nn.MultiheadAttention(D, H, kdim=memory_width, vdim=memory_width)
    widths = {"query": D, "key": memory_width, "value": memory_width, "output": D}
    check_projections(projections, module, widths)

    def rows_for_matrices(module: Any) -> dict[str, Tensor]:
        weights = projections(module)
        return {**weights, "key": weights["query"][1:2]}

    def mixed_up(module: Any) -> dict[str, Tensor]:
        weights = projections(module)
        return {**weights, "value": weights["key"]}

    must_fail(check_projections, rows_for_matrices, module, widths)
    must_fail(check_projections, mixed_up, module, widths)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("memory_width", [D, M])
@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_is_converted_from_torch(bias: bool, memory_width: int, batch_first: bool) -> None:
    theirs = nn.MultiheadAttention(
        D, H, bias=bias, kdim=memory_width, vdim=memory_width, batch_first=batch_first
    )
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    ours = from_torch(theirs)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, memory_width)
    arguments = (x, memory, memory) if batch_first else [t.transpose(0, 1) for t in (x, memory, memory)]
    expected, expected_weights = theirs(*arguments, average_attn_weights=False)
    with watch(ours) as seen:
        output = ours(x, memory)
    torch.testing.assert_close(output, expected if batch_first else expected.transpose(0, 1), **NEAR)
    torch.testing.assert_close(seen["weights"][0], expected_weights, **NEAR)


OURS = [
    lambda: MultiHeadAttention(D, H),
    lambda: MultiHeadAttention(D, H, memory_width=M, bias=False, dropout=0.25),
    lambda: EncoderBlock(BlockConfig(D, H, HIDDEN, activation="gelu", dropout=0.25, norm="pre")),
    lambda: DecoderBlock(BlockConfig(D, H, HIDDEN, dropout=0.25, inner_dropout=0.125)),
    lambda: Encoder(3, BlockConfig(D, H, HIDDEN, norm="pre")),
    lambda: Decoder(2, BlockConfig(D, H, HIDDEN, norm="post")).eval().double(),
]


@pytest.mark.parametrize("make", OURS)
def test_conversion_to_torch_and_back_is_exact(make: Callable[[], Any]) -> None:
    ours = make()
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    back = from_torch(to_torch(ours))
    assert str(back) == str(ours)
    assert back.training == ours.training
    for (name, mine), (other_name, other) in zip(
        ours.state_dict().items(), back.state_dict().items(), strict=True
    ):
        assert name == other_name
        torch.testing.assert_close(other, mine, **EXACT)
        assert other.data_ptr() != mine.data_ptr()


def test_the_attention_of_a_converted_stack_can_be_watched() -> None:
    theirs = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(D, H, HIDDEN, batch_first=True), 2, norm=nn.LayerNorm(D)
    ).eval()
    ours = from_torch(theirs)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    with watch(ours) as seen:
        output = ours(x, memory)
    torch.testing.assert_close(output, theirs(x, memory, tgt_mask=~causal_mask(T)[0]), **NEAR)
    assert seen["blocks.1.cross_attention.weights"][0].shape == (B, H, T, S)
    roles = {name: part.role for name, part in ours.named_modules() if isinstance(part, Tap)}
    assert roles["blocks.1.self_attention.weights"] == "self"
    assert roles["blocks.1.cross_attention.weights"] == "cross"


def test_frozen_parameters_stay_frozen() -> None:
    theirs = nn.TransformerEncoderLayer(D, H, HIDDEN, activation=torch.relu).requires_grad_(False)
    ours = from_torch(theirs)
    assert not any(parameter.requires_grad for parameter in ours.parameters())
    assert not any(parameter.requires_grad for parameter in to_torch(ours).parameters())
    assert all(parameter.requires_grad for parameter in from_torch(nn.MultiheadAttention(D, H)).parameters())


def test_partly_frozen_modules_stay_partly_frozen() -> None:
    theirs = nn.MultiheadAttention(D, H)
    theirs.in_proj_weight.requires_grad_(False)
    theirs.out_proj.bias.requires_grad_(False)
    ours = from_torch(theirs)
    frozen = {name for name, parameter in ours.named_parameters() if not parameter.requires_grad}
    assert frozen == {"query.weight", "key.weight", "value.weight", "output.bias"}
    back = {name for name, parameter in to_torch(ours).named_parameters() if not parameter.requires_grad}
    assert back == {"in_proj_weight", "out_proj.bias"}
    ours.key.weight.requires_grad_(True)
    with pytest.raises(WrongInput, match="module is frozen in part"):
        to_torch(ours)


def test_stochastic_depth_cannot_be_converted() -> None:
    encoder = Encoder(2, BlockConfig(D, H, HIDDEN))
    to_torch(encoder)
    block: Any = encoder.blocks[1]
    block.feedforward_residual.skip = 0.1
    with pytest.raises(WrongInput, match="module is made with stochastic depth"):
        to_torch(encoder)


def test_layers_without_biases_are_converted() -> None:
    theirs = nn.TransformerEncoderLayer(
        D, H, HIDDEN, bias=False, batch_first=True, activation=nn.GELU()
    ).eval()
    x = torch.randn(B, T, D)
    torch.testing.assert_close(from_torch(theirs)(x), theirs(x), **NEAR)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: projections(LINEAR), "module is a Linear; allowed: torch.nn.MultiheadAttention or"),
        (
            lambda: from_torch(LINEAR),
            "module is a Linear; allowed: an attention, a Transformer layer",
        ),
        (lambda: to_torch(LINEAR), "module is a Linear; allowed: an attention, a block"),
        (
            lambda: from_torch(nn.MultiheadAttention(D, H, kdim=2, vdim=3)),
            "kdim=2, vdim=3; allowed: one width",
        ),
        (
            lambda: from_torch(nn.MultiheadAttention(D, H, add_zero_attn=True)),
            "add_zero_attn; allowed: neither",
        ),
        (
            lambda: from_torch(nn.TransformerEncoderLayer(D, H, activation=nn.GELU("tanh"))),
            "activation is GELU.*allowed: relu or gelu",
        ),
    ],
)
def test_modules_that_cannot_be_converted_are_rejected(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
