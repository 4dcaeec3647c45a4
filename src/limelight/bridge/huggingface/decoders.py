"""GPT-2, and the family of Llama, Mistral and Qwen 2: language models."""

from typing import Any

from torch import Tensor

from limelight.bridge.huggingface.bert_layouts import ACTIVATIONS
from limelight.bridge.huggingface.folder import Asked, ModelFolder
from limelight.bridge.huggingface.imported import Plan, linear_names
from limelight.bridge.huggingface.tokenizers import read_tokenizer
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.errors import WrongInput
from limelight.models.decoder_only import DecoderOnlyConfig
from limelight.tasks.language.task import LanguageConfig, LanguageState

GPT2_PARTS = {
    "self_residual.norm": "ln_1",
    "self_attention.query": "attn.query",
    "self_attention.key": "attn.key",
    "self_attention.value": "attn.value",
    "self_attention.output": "attn.c_proj",
    "feedforward_residual.norm": "ln_2",
    "feedforward.expand": "mlp.c_fc",
    "feedforward.contract": "mlp.c_proj",
}
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
LLAMA_ATTENTION = {
    "self_attention.query": "self_attn.q_proj",
    "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj",
}
LLAMA_PARTS = {
    "self_attention.output": "self_attn.o_proj",
    "feedforward.gate": "mlp.gate_proj",
    "feedforward.expand": "mlp.up_proj",
    "feedforward.contract": "mlp.down_proj",
}
LLAMA_NORMS = {
    "self_residual.norm": "input_layernorm",
    "feedforward_residual.norm": "post_attention_layernorm",
}


def plan_gpt2(folder: ModelFolder, wanted: str) -> Plan:
    """What becomes of a folder with GPT-2 (Radford et al. 2019)."""
    asked = _asked(folder, wanted)
    asked.must_be("scale_attn_weights", True)
    asked.must_be("scale_attn_by_inverse_layer_idx", False)
    asked.must_be("add_cross_attention", False)
    asked.must_be("tie_word_embeddings", True)
    width, depth = asked.number("n_embd", 768), asked.number("n_layer", 12, most=1_000)
    settings = {
        "width": width,
        "depth": depth,
        "heads": asked.number("n_head", 12),
        "hidden": asked.number("n_inner", 4 * width),
        "activation": asked.choice("activation_function", ACTIVATIONS, "gelu_new"),
        "norm": "pre",
        "norm_epsilon": asked.real("layer_norm_epsilon", 1e-5),
        "positions": "learned",
        "tied": True,
    }
    names = gpt2_names(depth)
    buffers = [f"transformer.h.{i}.attn.{name}" for i in range(depth) for name in ("bias", "masked_bias")]
    context = asked.number("n_positions", 1024)
    state = _state(folder, asked, context)
    return Plan(
        *(LanguageConfig, {}, DecoderOnlyConfig, settings, state, names, _prepare_gpt2),
        unused=("lm_head.", *buffers),
    )


def gpt2_names(depth: int) -> dict[str, str]:
    """The names of all tensors, ours -> those of GPT-2 with queries, keys and values apart."""
    names = {"embedding.weight": "transformer.wte.weight", "positions.table": "transformer.wpe.weight"}
    names |= linear_names({"decoder.norm": "transformer.ln_f"})
    for number in range(depth):
        names |= linear_names(GPT2_PARTS, f"decoder.blocks.{number}.", f"transformer.h.{number}.")
    return names


def _prepare_gpt2(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Linear layers as in torch, with queries, keys and values apart."""
    found = dict[str, Tensor]()
    bare = not any(name.startswith("transformer.") for name in weights)
    for name, tensor in weights.items():
        name = f"transformer.{name}" if bare and not name.startswith("lm_head.") else name
        tensor = tensor.t() if name.endswith(TRANSPOSED) else tensor
        before, fused, kind = name.partition("attn.c_attn.")
        if fused:
            parts = zip(("query", "key", "value"), tensor.chunk(3), strict=True)
            found |= {f"{before}attn.{part}.{kind}": one for part, one in parts}
        else:
            found[name] = tensor
    return found


def plan_llama(folder: ModelFolder, wanted: str) -> Plan:
    """What becomes of a folder with Llama, Mistral or Qwen 2."""
    asked = _asked(folder, wanted)
    family = folder.config["model_type"]
    width, heads = asked.number("hidden_size"), asked.number("num_attention_heads")
    depth = asked.number("num_hidden_layers", most=1_000)
    asked.must_be("head_dim", width // heads)
    asked.must_be("hidden_act", "silu", "swish")
    asked.must_be("pretraining_tp", 1)
    bias = _bias(asked, family)
    tied = asked.flag("tie_word_embeddings", False)
    settings = {
        "width": width,
        "heads": heads,
        "depth": depth,
        "hidden": asked.number("intermediate_size"),
        "key_value_heads": asked.number("num_key_value_heads", heads),
        "feedforward": "swiglu",
        "norm": "pre-rms",
        "norm_epsilon": asked.real("rms_norm_eps", 1e-6),
        "bias": bias,
        "positions": "rotary",
        "window": _window(asked, family, depth),
        "tied": tied,
        **_rotary(asked),
    }
    names = llama_names(depth, bias, tied=tied)
    state = _state(folder, asked, asked.number("max_position_embeddings", 2048))
    unused = tuple(f"model.layers.{number}.self_attn.rotary_emb." for number in range(depth))
    unused += ("lm_head.",) if tied else ()
    return Plan(*(LanguageConfig, {}, DecoderOnlyConfig, settings, state, names, dict, unused))


def llama_names(depth: int, bias: str, *, tied: bool) -> dict[str, str]:
    """The names of all tensors, ours -> those of Llama."""
    names = {"embedding.weight": "model.embed_tokens.weight", "decoder.norm.weight": "model.norm.weight"}
    names |= {} if tied else {"output.weight": "lm_head.weight"}
    for number in range(depth):
        ours, theirs = f"decoder.blocks.{number}.", f"model.layers.{number}."
        names |= linear_names(LLAMA_ATTENTION, ours, theirs, bias=bias != "none")
        names |= linear_names(LLAMA_PARTS, ours, theirs, bias=bias == "all")
        names |= linear_names(LLAMA_NORMS, ours, theirs, bias=False)
    return names


def _bias(asked: Asked, family: str) -> str:
    if family == "qwen2":
        return "query-key-value"
    of_attention, of_feedforward = asked.flag("attention_bias", False), asked.flag("mlp_bias", False)
    if of_attention != of_feedforward:
        given = f"attention_bias is {of_attention} and mlp_bias is {of_feedforward}"
        raise WrongInput(f"{asked.place}: {given}; limelight has only equal ones")
    return "all" if of_attention else "none"


def _window(asked: Asked, family: str, depth: int) -> int:
    """The sliding window of all layers; 0: there is none."""
    if family != "mistral":
        asked.must_be("use_sliding_window", False)
    types = asked.get("layer_types") or []
    if not isinstance(types, list) or len(set(map(str, types))) > 1 or len(types) not in (0, depth):
        raise WrongInput(f"{asked.place}: layer_types differ; limelight has the same attention in each layer")
    window = asked.number("sliding_window") if "sliding_window" in asked and family == "mistral" else 0
    kind = "sliding_attention" if window else "full_attention"
    if types and types[0] != kind:
        raise WrongInput(f"{asked.place}: layer_types are {types[0]!r:.60}, but sliding_window is {window}")
    return window


def _rotary(asked: Asked) -> dict[str, Any]:
    """The frequencies of rotary positions; newer configs have them in one object."""
    given = asked.get("rope_parameters") or asked.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise WrongInput(f"{asked.place}: the settings of rotary positions are not an object")
    rope = Asked(given, asked.place)
    kinds = {"default": "default", "linear": "linear", "llama3": "llama3"}
    kind = rope.choice("rope_type" if "rope_type" in rope else "type", kinds, "default")
    rope.must_be("partial_rotary_factor", 1.0)
    asked.must_be("partial_rotary_factor", 1.0)
    base = rope.real("rope_theta", asked.real("rope_theta", 10_000.0))
    scaling = list[float]()
    if kind != "default":
        scaling = [rope.real("factor", 0.0)]
    if kind == "llama3":
        scaling += [rope.real("low_freq_factor", 0.0), rope.real("high_freq_factor", 0.0)]
        scaling += [float(rope.number("original_max_position_embeddings", most=10**9))]
    return {"rotary_base": base, "rotary_scaling": scaling}


def _asked(folder: ModelFolder, wanted: str) -> Asked:
    asked = Asked(folder.config, folder.path / "config.json")
    listed = asked.get("architectures") or ["LMHeadModel"]
    name = str(listed[0]) if isinstance(listed, list) else str(listed)
    if not name.endswith(("LMHeadModel", "ForCausalLM", "GPT2Model")):
        allowed = "…LMHeadModel and …ForCausalLM"
        raise WrongInput(f"{asked.place}: architectures is {name!r:.60}; limelight has {allowed}")
    if wanted not in ("", "language"):
        raise WrongInput(f"--task is {wanted!r}; allowed for this model: language")
    return asked


def _state(folder: ModelFolder, asked: Asked, context: int) -> LanguageState:
    entries = asked.number("vocab_size", most=2_000_000)
    reader = read_tokenizer(folder, entries, context, end="eos_token").model_copy(update={"finish": ()})
    end = _token(asked, "eos_token_id", entries, reader.end)
    begin = reader.begin[0] if reader.begin else _token(asked, "bos_token_id", entries, end)
    if end < 0 or begin < 0:
        raise WrongInput(f"{asked.place}: eos_token_id is missing")
    reader = PretrainedTokenizer(**reader.model_dump() | {"end_token": end})
    return LanguageState(reader=reader, context=context, start=begin)


def _token(asked: Asked, key: str, entries: int, default: int) -> int:
    """The id of a special token; the first of several."""
    value = asked.get(key)
    value = value[0] if isinstance(value, list) and value else value
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < entries:
        raise WrongInput(f"{asked.place}: {key} is {value!r:.60}; allowed: 0 to {entries - 1:,}")
    return value
