"""Our Transformers as specifications of CTranslate2: the same layers with a copy of the weights."""

import math
from copy import deepcopy
from typing import Any, cast

import numpy as np
import torch
from ctranslate2.specs import (
    TransformerDecoderModelSpec,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from ctranslate2.specs.attention_spec import RotaryScalingType
from ctranslate2.specs.common_spec import Activation
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.models.decoder_only import LanguageModel
from limelight.models.transformer import Transformer
from limelight.nn import (
    Decoder,
    DecoderOnly,
    Encoder,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    MultiHeadAttention,
    RMSNorm,
    SinusoidalPositions,
    sinusoids,
)
from limelight.nn.blocks import DecoderBlock, EncoderBlock, PreNorm
from limelight.nn.feedforward import ACTIVATIONS, GATES

ROWS = 1_024  # positions of a table without a limit of its own; longer sequences are left to torch
PLAIN = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu-tanh": Activation.GELUTanh,
    "silu": Activation.SWISH,
}
GATED = {"swiglu": Activation.SWISH, "geglu": Activation.GELU}


def translation_spec(model: Transformer) -> TransformerSpec:
    """The specification of an encoder-decoder, without its vocabularies."""
    encoder = TransformerEncoderSpec(len(model.encoder.blocks), **_settings(model.encoder))
    decoder = TransformerDecoderSpec(len(model.decoder.blocks), **_settings(model.decoder))
    if _blocks(model.encoder)[0].self_attention.alibi is not None:
        raise _unsupported("alibi positions in an encoder")
    if _blocks(model.decoder)[0].self_attention.query_norm is not None:
        raise _unsupported("query_key_norm in a decoder with a memory")
    spec = TransformerSpec(encoder, decoder)
    _add_blocks(encoder, model.encoder)
    _add_blocks(decoder, model.decoder)
    _add_positions(encoder, model.encoder, model.source_positions, ROWS)
    _add_positions(decoder, model.decoder, model.target_positions, ROWS)
    encoder.embeddings[0].weight = _array(model.source_embedding.weight)
    decoder.embeddings.weight = _array(model.target_embedding.weight)
    _add_linear(decoder.projection, model.output)
    spec.config.layer_norm_epsilon = _epsilon(model.decoder)
    return spec


def language_spec(model: LanguageModel, context: int) -> TransformerDecoderModelSpec:
    """The specification of a language model that reads `context` tokens, without its vocabulary."""
    alibi = _blocks(model.decoder)[0].self_attention.alibi is not None
    settings = _settings(model.decoder) | {"alibi": alibi, "with_encoder_attention": False}
    decoder = TransformerDecoderSpec(len(model.decoder.blocks), **settings)
    spec = TransformerDecoderModelSpec(decoder)
    _add_blocks(decoder, model.decoder)
    _add_positions(decoder, model.decoder, model.positions, max(ROWS, context))
    decoder.scale_embeddings = False
    decoder.embeddings.weight = _array(model.embedding.weight)
    _add_linear(decoder.projection, model.output)
    spec.config.layer_norm_epsilon = _epsilon(model.decoder)
    return spec


def _unsupported(what: str) -> WrongInput:
    return WrongInput(f"ctranslate2 does not support {what}; use --to onnx")


def _settings(stack: Encoder | Decoder | DecoderOnly) -> dict[str, Any]:
    """The settings of the specification of a stack; what CTranslate2 does not have is refused by its name."""
    block = _blocks(stack)[0]
    attention, feedforward = block.self_attention, block.feedforward
    rms, variant = isinstance(block.self_residual.norm, RMSNorm), attention.variant
    if variant.window:
        raise _unsupported("attention with a window")
    rotary, frequencies = attention.rotary, variant.rotation
    if frequencies.original:
        raise _unsupported("the scaling of rotary positions of Llama 3")
    scaled = frequencies.factor != 1
    grouped = attention.key_value_heads != attention.heads
    return {
        "num_heads": attention.heads,
        "pre_norm": isinstance(block.self_residual, PreNorm),
        "rms_norm": rms,
        "activation": _activation(feedforward),
        "ffn_glu": isinstance(feedforward, GatedFeedForward),
        "qk_norm": variant.query_key_norm,
        "num_heads_kv": attention.key_value_heads if grouped else None,
        "rotary_dim": None if rotary is None else rotary.width,
        "rotary_interleave": rotary is not None and rotary.pairing == "interleaved",
        "rotary_base": frequencies.base,
        "rotary_scaling_type": RotaryScalingType.Linear if scaled else None,
        "rotary_scaling_factor": frequencies.factor,
    }


def _blocks(stack: Encoder | Decoder | DecoderOnly) -> list[EncoderBlock | DecoderBlock]:
    return [cast(EncoderBlock | DecoderBlock, block) for block in stack.blocks]


def _activation(feedforward: FeedForward | GatedFeedForward) -> Activation:
    if isinstance(feedforward, GatedFeedForward):
        return next(GATED[name] for name, one in GATES.items() if one is feedforward.activation)
    wanted = _function(feedforward.activation)
    return next(PLAIN[name] for name, one in ACTIVATIONS.items() if _function(one) == wanted)


def _function(activation: Any) -> tuple[Any, Any]:
    """What a function or a partial of it computes: a copy of a model has a copy of the partial."""
    return getattr(activation, "func", activation), getattr(activation, "keywords", None)


def _epsilon(stack: Encoder | Decoder | DecoderOnly) -> float:
    norm = _blocks(stack)[0].self_residual.norm
    return norm.epsilon if isinstance(norm, RMSNorm) else norm.eps


def _add_blocks(spec: Any, stack: Encoder | Decoder | DecoderOnly) -> None:
    epsilon = _epsilon(stack)
    for layer, block in zip(spec.layer, _blocks(stack), strict=True):
        own = block.self_attention
        _add_linear(layer.self_attention.linear[0], *_projections(own, epsilon))
        _add_linear(layer.self_attention.linear[1], own.output)
        if own.query_norm is not None and own.key_norm is not None:
            _add_norm(layer.self_attention.q_norm, own.query_norm)
            _add_norm(layer.self_attention.k_norm, own.key_norm)
        _add_norm(layer.self_attention.layer_norm, block.self_residual.norm)
        if isinstance(block, DecoderBlock):
            cross = block.cross_attention
            _add_linear(layer.attention.linear[0], cross.query)
            _add_linear(layer.attention.linear[1], cross.key, cross.value)
            _add_linear(layer.attention.linear[2], cross.output)
            _add_norm(layer.attention.layer_norm, block.cross_residual.norm)
        _add_feedforward(layer.ffn, block.feedforward)
        _add_norm(layer.ffn.layer_norm, block.feedforward_residual.norm)
    if not isinstance(stack.norm, nn.Identity):
        _add_norm(spec.layer_norm, stack.norm)


def _projections(attention: MultiHeadAttention, epsilon: float) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """The projections of queries, keys and values.

    All norms of CTranslate2 have the `epsilon` of the blocks. The RMS norm of c · x with c² · ε is that of x
    with ε, so queries and keys are scaled by c if their norm has another ε.
    """
    query, key, value = attention.query, attention.key, attention.value
    if attention.query_norm is None:
        return query, key, value
    scale = math.sqrt(epsilon / attention.query_norm.epsilon)
    return _scaled(query, scale), _scaled(key, scale), value


def _scaled(layer: nn.Linear, scale: float) -> nn.Linear:
    other = deepcopy(layer)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(scale)
    return other


def _add_positions(
    spec: Any, stack: Encoder | Decoder | DecoderOnly, positions: nn.Module, rows: int
) -> None:
    """(T, D), the positions that are added to the inputs, unless attention has its own.

    The default of CTranslate2 has all sines before all cosines.
    """
    attention = _blocks(stack)[0].self_attention
    if attention.rotary is not None or attention.alibi is not None:
        return
    if isinstance(positions, LearnedPositions):
        table_TD: Tensor = positions.table
    else:
        table_TD = torch.zeros(rows, stack.width)
        if isinstance(positions, SinusoidalPositions):
            table_TD = sinusoids(rows, stack.width, layout=positions.layout)
    spec.position_encodings.encodings = _array(table_TD)


def _add_feedforward(spec: Any, feedforward: FeedForward | GatedFeedForward) -> None:
    if isinstance(feedforward, GatedFeedForward):
        _add_linear(spec.linear_0, feedforward.gate)  # with the activation
        _add_linear(spec.linear_0_noact, feedforward.expand)
    else:
        _add_linear(spec.linear_0, feedforward.expand)
    _add_linear(spec.linear_1, feedforward.contract)


def _add_linear(spec: Any, *layers: nn.Linear) -> None:
    """Several layers with the same input become one."""
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _add_norm(spec: Any, norm: nn.LayerNorm | RMSNorm) -> None:
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> np.ndarray:
    """A copy: the weights of the model are not shared."""
    return tensor.detach().cpu().float().clone().numpy()
