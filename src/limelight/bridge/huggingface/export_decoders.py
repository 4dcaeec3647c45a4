"""Language models of runs as GPT-2, Llama, Mistral or Qwen 2."""

from typing import Any

import torch
from torch import Tensor

from limelight.bridge.huggingface.decoders import TRANSPOSED, gpt2_names, llama_names
from limelight.bridge.huggingface.exported import (
    ACTIVATIONS,
    Export,
    Weights,
    attention_dropout,
    check_settings,
    heads_of,
    map_weights,
    renamed,
)
from limelight.errors import WrongInput
from limelight.models.decoder_only import DecoderOnlyConfig
from limelight.tasks.language.task import LanguageState

AUTO = "AutoModelForCausalLM"


def export_decoder(config: DecoderOnlyConfig, task: Any, weights: Weights) -> Export:
    """GPT-2 (Radford et al. 2019) with learned positions; with rotary ones a model of the family of Llama."""
    if config.positions == "learned":
        return _gpt2(config, task, weights)
    if config.positions in ("rotary", "rotary-interleaved"):
        return _llama(config, task, weights)
    raise WrongInput(
        f"model.positions is {config.positions!r}; the language models of transformers that limelight can "
        "write have only 'learned', 'rotary' or 'rotary-interleaved'"
    )


def _tokens(task: Any, weights: Weights) -> dict[str, Any]:
    state = LanguageState.model_validate_json(task.state)
    return {
        "vocab_size": len(weights["embedding.weight"]),
        "bos_token_id": state.start,
        "eos_token_id": task.reader.end,
        "pad_token_id": None,
    }


def _gpt2(config: DecoderOnlyConfig, task: Any, weights: Weights) -> Export:
    allowed: dict[str, tuple[Any, ...]] = {
        "norm": ("pre",),
        "feedforward": ("plain",),
        "bias": ("all",),
        "tied": (True,),
        "key_value_heads": heads_of(config),
        "query_key_norm": (False,),
        "window": (0,),
    }
    check_settings(config, "GPT-2", allowed)
    found = renamed(weights, gpt2_names(config.depth))
    for name in [name for name in found if ".attn.query." in name]:
        parts = [found.pop(name.replace("query", part)) for part in ("query", "key", "value")]
        found[name.replace("query", "c_attn")] = torch.cat(parts)
    found = map_weights(found, lambda name, one: one.t().contiguous() if name.endswith(TRANSPOSED) else one)
    settings = {
        "model_type": "gpt2",
        "n_embd": config.width,
        "n_layer": config.depth,
        "n_head": config.heads,
        "n_inner": config.hidden,
        "n_positions": len(weights["positions.table"]),
        "activation_function": ACTIVATIONS[config.activation],
        "layer_norm_epsilon": config.norm_epsilon or 1e-5,
        "embd_pdrop": config.dropout,
        "resid_pdrop": config.dropout,
        "attn_pdrop": attention_dropout(config),
        "tie_word_embeddings": True,
        **_tokens(task, weights),
    }
    return Export("GPT2LMHeadModel", AUTO, settings, found, weights)


def _llama(config: DecoderOnlyConfig, task: Any, weights: Weights) -> Export:
    family = "Mistral" if config.window else "Qwen2" if config.bias == "query-key-value" else "Llama"
    allowed: dict[str, tuple[Any, ...]] = {
        "norm": ("pre-rms",),
        "feedforward": ("swiglu",),
        "query_key_norm": (False,),
        "sinks": (0,),
    }
    allowed |= {"bias": ("none",)} if family == "Mistral" else {}
    check_settings(config, family, allowed)
    ours = _in_halves(weights, config) if config.positions == "rotary-interleaved" else weights
    found = renamed(ours, llama_names(config.depth, config.bias, tied=config.tied))
    settings: dict[str, Any] = {
        "model_type": family.lower(),
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads or config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_epsilon or 1e-6,
        "max_position_embeddings": task.context,
        "attention_dropout": attention_dropout(config),
        "tie_word_embeddings": config.tied,
        **_rotary(config),
        **_tokens(task, weights),
    }
    if family == "Llama":
        settings |= dict.fromkeys(("attention_bias", "mlp_bias"), config.bias == "all")
    else:
        settings["sliding_window"] = config.window or None
    if family == "Qwen2":
        settings["use_sliding_window"] = False
    return Export(f"{family}ForCausalLM", AUTO, settings, found, ours)


def _rotary(config: DecoderOnlyConfig) -> dict[str, Any]:
    """The frequencies, under the names of versions 5 and 4 of transformers."""
    base, scaling = config.rotary_base, config.rotary_scaling
    kind: dict[str, Any] = {"rope_type": "default"}
    if scaling:
        kind = {"rope_type": "linear" if len(scaling) == 1 else "llama3", "factor": scaling[0]}
    if len(scaling) == 4:
        kind |= {"low_freq_factor": scaling[1], "high_freq_factor": scaling[2]}
        kind |= {"original_max_position_embeddings": int(scaling[3])}
    found: dict[str, Any] = {"rope_parameters": {**kind, "rope_theta": base}, "rope_theta": base}
    return found | ({"rope_scaling": {**kind, "rope_theta": base}} if scaling else {})


def _in_halves(weights: Weights, config: DecoderOnlyConfig) -> Weights:
    """The rows of W_q and W_k permuted: pairs of neighbours become features i and i + K/2 of a head."""
    size = config.width // config.heads
    order = torch.cat((torch.arange(0, size, 2), torch.arange(1, size, 2)))

    def permute(name: str, tensor: Tensor) -> Tensor:
        if ".self_attention.query." not in name and ".self_attention.key." not in name:
            return tensor
        return tensor.unflatten(0, (-1, size))[:, order].flatten(0, 1)

    return map_weights(weights, permute)
