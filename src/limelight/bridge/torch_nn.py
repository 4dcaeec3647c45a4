"""Conversion of Transformer layers and stacks from and to torch.nn."""

from copy import deepcopy
from typing import Any, cast, overload

import torch
from torch import nn

from limelight.bridge.torch_attention import attention_from_torch, attention_to_torch
from limelight.errors import wrong
from limelight.nn import BlockConfig, Decoder, DecoderBlock, Encoder, EncoderBlock, MultiHeadAttention
from limelight.nn.blocks import PostNorm, PreNorm
from limelight.nn.feedforward import ACTIVATIONS
from limelight.nn.tap import Role

# Our name of a part -> its name in torch.nn.
ENCODER_PARTS = {
    "self_attention": "self_attn",
    "self_residual.norm": "norm1",
    "self_residual.dropout": "dropout1",
    "feedforward.expand": "linear1",
    "feedforward.dropout": "dropout",
    "feedforward.contract": "linear2",
    "feedforward_residual.norm": "norm2",
    "feedforward_residual.dropout": "dropout2",
}
DECODER_PARTS = ENCODER_PARTS | {
    "cross_attention": "multihead_attn",
    "cross_residual.norm": "norm2",
    "cross_residual.dropout": "dropout2",
    "feedforward_residual.norm": "norm3",
    "feedforward_residual.dropout": "dropout3",
}


@overload
def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention: ...
@overload
def from_torch(module: nn.TransformerEncoderLayer) -> EncoderBlock: ...
@overload
def from_torch(module: nn.TransformerDecoderLayer) -> DecoderBlock: ...
@overload
def from_torch(module: nn.TransformerEncoder) -> Encoder: ...
@overload
def from_torch(module: nn.TransformerDecoder) -> Decoder: ...
def from_torch(module: Any) -> Any:
    """The same layer or stack from limelight.nn, with a copy of the weights; its attention can be watched.

    It is batch first. Our decoder is always causal: torch.nn's gives the same with a causal `tgt_mask`.
    """
    ours: nn.Module
    match module:
        case nn.MultiheadAttention():
            ours = attention_from_torch(module)
        case nn.TransformerEncoderLayer():
            ours = EncoderBlock(_our_config(module))
            _fill(ours, module, ENCODER_PARTS)
        case nn.TransformerDecoderLayer():
            ours = DecoderBlock(_our_config(module))
            _fill(ours, module, DECODER_PARTS)
        case nn.TransformerEncoder() | nn.TransformerDecoder():
            stack = Encoder if isinstance(module, nn.TransformerEncoder) else Decoder
            ours = stack(1, _our_config(module.layers[0]))
            ours.blocks = nn.ModuleList(from_torch(layer) for layer in module.layers)
            ours.norm = nn.Identity() if module.norm is None else deepcopy(cast(nn.LayerNorm, module.norm))
        case _:
            allowed = "an attention, a Transformer layer or a stack of them from torch.nn"
            raise wrong("module", f"a {type(module).__name__}", allowed)
    return ours.train(module.training)


@overload
def to_torch(module: MultiHeadAttention) -> nn.MultiheadAttention: ...
@overload
def to_torch(module: EncoderBlock) -> nn.TransformerEncoderLayer: ...
@overload
def to_torch(module: DecoderBlock) -> nn.TransformerDecoderLayer: ...
@overload
def to_torch(module: Encoder) -> nn.TransformerEncoder: ...
@overload
def to_torch(module: Decoder) -> nn.TransformerDecoder: ...
def to_torch(module: Any) -> Any:
    """The same layer or stack from torch.nn, with copied weights and `batch_first=True`."""
    theirs: nn.Module
    match module:
        case MultiHeadAttention():
            theirs = attention_to_torch(module)
        case EncoderBlock():
            theirs = nn.TransformerEncoderLayer(**_their_options(module))
            _fill(theirs, module, _inverted(ENCODER_PARTS))
        case DecoderBlock():
            theirs = nn.TransformerDecoderLayer(**_their_options(module))
            _fill(theirs, module, _inverted(DECODER_PARTS))
        case Encoder() | Decoder():
            theirs = _stack_to_torch(module)
        case _:
            allowed = "an attention, a block or a stack of blocks from limelight.nn"
            raise wrong("module", f"a {type(module).__name__}", allowed)
    return theirs.train(module.training)


def _stack_to_torch(module: Any) -> nn.Module:
    layers: Any = nn.ModuleList(to_torch(block) for block in module.blocks)
    norm = None if isinstance(module.norm, nn.Identity) else deepcopy(cast(nn.LayerNorm, module.norm))
    theirs: nn.TransformerEncoder | nn.TransformerDecoder
    if isinstance(module, Encoder):
        theirs = nn.TransformerEncoder(layers[0], len(layers), norm, enable_nested_tensor=False)
    else:
        theirs = nn.TransformerDecoder(layers[0], len(layers), norm)
    theirs.layers = layers
    return theirs


def _fill(target: nn.Module, source: nn.Module, names: dict[str, str]) -> None:
    """Replaces each part of `target` with a copy of that of `source`; attention is converted."""
    for target_name, source_name in names.items():
        part = source.get_submodule(source_name)
        if isinstance(part, nn.Dropout):
            cast(nn.Dropout, target.get_submodule(target_name)).p = part.p
            continue
        if isinstance(part, nn.MultiheadAttention):
            part = attention_from_torch(part, _role(target, target_name))
        elif isinstance(part, MultiHeadAttention):
            part = to_torch(part)
        else:
            part = deepcopy(part)
        target.set_submodule(target_name, part)


def _role(block: nn.Module, name: str) -> Role:
    return cast(MultiHeadAttention, block.get_submodule(name)).weights.role


def _inverted(names: dict[str, str]) -> dict[str, str]:
    return {value: key for key, value in names.items()}


def _our_config(layer: Any) -> BlockConfig:
    """The settings of our block for a layer of torch.nn."""
    return BlockConfig(
        width=layer.linear1.in_features,
        heads=layer.self_attn.num_heads,
        hidden=layer.linear1.out_features,
        activation=_activation_name(layer.activation),
        norm="pre" if layer.norm_first else "post",
        dropout=layer.dropout.p,
    )


def _their_options(block: EncoderBlock | DecoderBlock) -> dict[str, Any]:
    """The arguments of torch.nn's layer for our block."""
    if any(isinstance(part, PreNorm | PostNorm) and part.skip for part in block.children()):
        raise wrong("module", "made with stochastic depth", "none, which torch.nn does not have")
    return {
        "d_model": block.self_attention.width,
        "nhead": block.self_attention.heads,
        "dim_feedforward": block.feedforward.expand.out_features,
        "activation": block.feedforward.activation,
        "dropout": block.self_residual.dropout.p,
        "norm_first": isinstance(block.self_residual, PreNorm),
        "batch_first": True,
    }


def _activation_name(activation: object) -> str:
    for name, function in ACTIVATIONS.items():
        if activation is function:
            return name
    if activation is torch.relu or isinstance(activation, nn.ReLU):
        return "relu"
    if isinstance(activation, nn.GELU) and activation.approximate == "none":
        return "gelu"
    raise wrong("activation", repr(activation), " or ".join(ACTIVATIONS))
