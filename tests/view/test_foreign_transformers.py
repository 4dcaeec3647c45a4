"""`capture` of models of Hugging Face, with their default attention and with the eager one.

The expected weights are those that the eager model returns when it is asked for them.
"""

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support import EXACT
from torch import Tensor

from limelight.view import capture

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

B, T, S, V, D, H = 3, 5, 7, 97, 24, 4

TEXT = {
    "vocab_size": V,
    "hidden_size": D,
    "num_hidden_layers": 2,
    "num_attention_heads": H,
    "intermediate_size": 40,
}
GROUPS = TEXT | {"num_key_value_heads": 2}
GPT2 = {"vocab_size": V, "n_embd": D, "n_layer": 2, "n_head": H, "n_positions": 32}
DISTILBERT = {"vocab_size": V, "dim": D, "n_layers": 2, "n_heads": H, "hidden_dim": 40}
OPT = {**TEXT, "ffn_dim": 40, "word_embed_proj_dim": D}
SEQ2SEQ = {
    "vocab_size": V,
    "d_model": D,
    **{f"{part}_layers": 2 for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": H for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 40 for part in ("encoder", "decoder")},
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": 2,
}
T5 = {"vocab_size": V, "d_model": D, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_heads": H}
VISION = {key: TEXT[key] for key in TEXT if key != "vocab_size"} | {"image_size": 16, "patch_size": 4}

# Model, configuration, inputs, and whether it also has an attention other than the eager one
MODELS: dict[str, tuple[str, str, dict[str, Any], str, bool]] = {
    "BERT": ("BertModel", "BertConfig", TEXT, "text", True),
    "RoBERTa": ("RobertaModel", "RobertaConfig", TEXT, "text", True),
    "DistilBERT": ("DistilBertModel", "DistilBertConfig", DISTILBERT, "text", True),
    "ALBERT": ("AlbertModel", "AlbertConfig", TEXT | {"embedding_size": 16}, "text", True),
    "DeBERTa": (
        "DebertaV2Model",
        "DebertaV2Config",
        TEXT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        "text",
        False,
    ),
    "XLNet": (
        "XLNetModel",
        "XLNetConfig",
        {"vocab_size": V, "d_model": D, "n_layer": 2, "n_head": H, "d_inner": 40},
        "text",
        False,
    ),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", GPT2, "text", True),
    "GPT-NeoX": ("GPTNeoXForCausalLM", "GPTNeoXConfig", TEXT, "text", True),
    "Llama": ("LlamaForCausalLM", "LlamaConfig", GROUPS, "text", True),
    "Mistral": ("MistralForCausalLM", "MistralConfig", GROUPS | {"sliding_window": 3}, "text", True),
    "Mixtral": ("MixtralForCausalLM", "MixtralConfig", GROUPS | {"num_local_experts": 3}, "text", True),
    "Gemma": (
        "GemmaForCausalLM",
        "GemmaConfig",
        TEXT | {"num_key_value_heads": 1, "head_dim": 6},
        "text",
        True,
    ),
    "OPT": ("OPTForCausalLM", "OPTConfig", OPT, "text", True),
    "Falcon": ("FalconForCausalLM", "FalconConfig", TEXT, "text", True),
    "BLOOM": (
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": V, "hidden_size": D, "n_layer": 2, "n_head": H},
        "text",
        False,
    ),
    "T5": ("T5ForConditionalGeneration", "T5Config", T5, "pair", True),
    "Marian": ("MarianMTModel", "MarianConfig", SEQ2SEQ, "pair", True),
    "BART": ("BartModel", "BartConfig", SEQ2SEQ, "pair", True),
    "ViT": ("ViTForImageClassification", "ViTConfig", VISION, "image", True),
    "DeiT": ("DeiTModel", "DeiTConfig", VISION, "image", True),
}


def inputs(kind: str) -> dict[str, Tensor]:
    ids = torch.randint(3, V, (B, T))
    if kind == "image":
        return {"pixel_values": torch.randn(B, 3, 16, 16)}
    if kind == "pair":
        return {"input_ids": torch.randint(3, V, (B, S)), "decoder_input_ids": ids}
    return {"input_ids": ids, "attention_mask": (torch.arange(T) < torch.tensor([[5], [3], [4]])).long()}


def returned(output: Any) -> Iterator[Tensor]:
    """The weights that a model returns, in the order of their computation."""
    yield from output.get("encoder_attentions") or ()
    own = output.get("decoder_attentions") or output.get("attentions") or ()
    cross = output.get("cross_attentions") or [None] * len(own)
    for one, other in zip(own, cross, strict=True):
        yield one
        if other is not None:
            yield other


@pytest.mark.parametrize("way", ["default", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_all_weights_of_a_model_of_hugging_face_are_captured(name: str, way: str) -> None:
    kind, config, settings, task, has_other = MODELS[name]
    if way == "default" and not has_other:
        pytest.skip("its only attention is the eager one")
    torch.manual_seed(1)
    with warnings.catch_warnings():  # of modules that are imported now
        warnings.simplefilter("ignore")
        build = getattr(transformers, kind)
    given = inputs(task)
    eager = build(getattr(transformers, config)(**settings, attn_implementation="eager")).eval()
    model = eager
    if way == "default":
        model = build(getattr(transformers, config)(**settings)).eval()
        model.load_state_dict(eager.state_dict())
        assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        expected = list(returned(eager(**given, output_attentions=True)))
        before = model(**given)[0]
        found = capture(model, **given)
    torch.testing.assert_close(found.output[0], before, **EXACT)
    assert len(found.attentions) == len(expected) == (6 if task == "pair" else 2)
    for one, weights in zip(found.attentions, expected, strict=True):
        assert (one.role == "cross") == (weights.shape[-1] != weights.shape[-2])
        torch.testing.assert_close(one.weights, weights, rtol=0.0, atol=1e-5)
