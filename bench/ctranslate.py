"""Our Transformer converted to CTranslate2: post-norm, sinusoidal positions, one shared embedding matrix."""

from pathlib import Path

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from ctranslate2.specs.model_spec import LayerSpec, NumpyVariable, Variable, visit_spec
from torch import Tensor, nn

from bench.padded import BEGIN, END, PAD
from limelight.models.transformer import Transformer, TransformerConfig

MARKS = {PAD: "<blank>", BEGIN: "<s>", END: "</s>"}


def word(token: int) -> str:
    return MARKS.get(token, str(token))


def _array(tensor: Tensor) -> np.ndarray:
    """A copy, because quantisation in CTranslate2 changes its input."""
    return tensor.detach().clone().numpy()


def _linear(spec: LinearSpec, *layers: nn.Linear) -> None:
    """Several layers with the same input become one."""
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _norm(spec: LayerNormSpec, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _stack(spec: LayerSpec, blocks: nn.ModuleList, embedding: nn.Embedding, positions: nn.Module) -> None:
    spec.scale_embeddings = True  # by √D
    tokens = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    tokens.weight = _array(embedding.weight)
    # The default of CTranslate2 has all sines before all cosines.
    spec.position_encodings.encodings = _array(positions.table)
    for layer, block in zip(spec.layer, blocks, strict=True):
        own = block.self_attention
        _linear(layer.self_attention.linear[0], own.query, own.key, own.value)
        _linear(layer.self_attention.linear[1], own.output)
        _norm(layer.self_attention.layer_norm, block.self_residual.norm)
        if hasattr(block, "cross_attention"):
            cross = block.cross_attention
            _linear(layer.attention.linear[0], cross.query)
            _linear(layer.attention.linear[1], cross.key, cross.value)
            _linear(layer.attention.linear[2], cross.output)
            _norm(layer.attention.layer_norm, block.cross_residual.norm)
        _linear(layer.ffn.linear_0, block.feedforward.expand)
        _linear(layer.ffn.linear_1, block.feedforward.contract)
        _norm(layer.ffn.layer_norm, block.feedforward_residual.norm)


def _seven_bits(layer: LayerSpec, name: str, value: object) -> None:
    """Halve the int8 weights. Without VNNI, oneDNN adds two products in sixteen bits, which saturates: errors
    of log-probabilities were 0.6 and more, and less than 0.1 with seven bits."""
    if name.endswith("weight") and isinstance(value, Variable) and value.dtype == "int8":
        layer.weight = NumpyVariable(np.rint(value.numpy() / 2).astype(np.int8))
        layer.weight_scale = NumpyVariable(layer.weight_scale.numpy() / np.float32(2))


def translator(
    config: TransformerConfig, ours: Transformer, folder: Path, numbers: str
) -> ctranslate2.Translator:
    """`numbers` is "float32" or "int8". It uses as many threads as torch."""
    depths = (config.encoder_depth, config.decoder_depth)
    spec = TransformerSpec.from_config(depths, config.heads, pre_norm=False, activation=Activation.RELU)
    _stack(spec.encoder, ours.encoder.blocks, ours.source_embedding, ours.source_positions)
    _stack(spec.decoder, ours.decoder.blocks, ours.target_embedding, ours.target_positions)
    _linear(spec.decoder.projection, ours.output)
    words = [word(token) for token in range(ours.target_embedding.num_embeddings)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = word(BEGIN), word(END), word(PAD)
    spec.config.decoder_start_token = word(BEGIN)
    spec.validate()
    spec.optimize(numbers)
    visit_spec(spec, _seven_bits)
    folder.mkdir()
    spec.save(str(folder))
    return ctranslate2.Translator(
        str(folder),
        device="cpu",
        compute_type=numbers,
        inter_threads=1,
        intra_threads=torch.get_num_threads(),
    )
