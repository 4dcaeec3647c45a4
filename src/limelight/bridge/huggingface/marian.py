"""Marian: the translators of OPUS-MT (Junczys-Dowmunt et al. 2018)."""

import base64
from typing import Any

from torch import Tensor

from limelight.bridge.huggingface.bert import ACTIVATIONS
from limelight.bridge.huggingface.folder import Asked, ModelFolder
from limelight.bridge.huggingface.imported import Plan, linear_names
from limelight.data.text.sentence_pieces import SentencePieces
from limelight.data.text.translation_data import Language
from limelight.errors import WrongInput
from limelight.models.transformer import TransformerConfig
from limelight.tasks.translate.task import TranslateConfig, TranslateState

SELF = {
    "self_attention.query": "self_attn.q_proj",
    "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj",
    "self_attention.output": "self_attn.out_proj",
    "self_residual.norm": "self_attn_layer_norm",
    "feedforward.expand": "fc1",
    "feedforward.contract": "fc2",
    "feedforward_residual.norm": "final_layer_norm",
}
CROSS = {
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "cross_residual.norm": "encoder_attn_layer_norm",
}


def plan(folder: ModelFolder, wanted: str) -> Plan:
    """What becomes of a folder with a translator."""
    asked = Asked(folder.config, folder.path / "config.json")
    if wanted not in ("", "translate"):
        raise WrongInput(f"--task is {wanted!r}; allowed for this model: translate")
    for key in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        asked.must_be(key, False)
    for key in ("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings"):
        asked.must_be(key, True)
    entries = asked.number("vocab_size", most=2_000_000)
    asked.must_be("decoder_vocab_size", entries)
    heads, hidden = asked.number("encoder_attention_heads"), asked.number("encoder_ffn_dim")
    asked.must_be("decoder_attention_heads", heads)
    asked.must_be("decoder_ffn_dim", hidden)
    encoder, decoder = asked.number("encoder_layers"), asked.number("decoder_layers")
    settings: dict[str, Any] = {
        "width": asked.number("d_model"),
        "heads": heads,
        "hidden": hidden,
        "activation": asked.choice("activation_function", ACTIVATIONS, "gelu"),
        "norm": "post",
        "positions": "sinusoidal-halves",
        "encoder_depth": encoder,
        "decoder_depth": decoder,
        "tied": "all",
        "output_bias": True,
    }
    names = {"target_embedding.weight": "model.shared.weight", "output.bias": "final_logits_bias"}
    for number in range(encoder):
        names |= linear_names(SELF, f"encoder.blocks.{number}.", f"model.encoder.layers.{number}.")
    for number in range(decoder):
        names |= linear_names(SELF | CROSS, f"decoder.blocks.{number}.", f"model.decoder.layers.{number}.")
    longest = asked.number("max_position_embeddings", 512)
    source, target = _languages(folder, asked, entries)
    state = TranslateState(source=source, target=target, longest=longest)
    unused = ("model.encoder.embed_", "model.decoder.embed_", "lm_head.")
    data = {"data": {"kind": "pairs"}}
    return Plan(TranslateConfig, data, TransformerConfig, settings, state, names, _prepare, unused)


def _prepare(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    found = dict(weights)
    if "final_logits_bias" in found:
        found["final_logits_bias"] = found["final_logits_bias"][0]
    return found


def _languages(folder: ModelFolder, asked: Asked, entries: int) -> tuple[Language, Language]:
    """The vocabularies of source and target, which share their ids."""
    ids = folder.json("vocab.json")
    if ids is None:
        raise WrongInput(f"{folder.path} has no vocab.json")
    pieces = [f"[unused {number}]" for number in range(entries)]
    for piece, number in ids.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < entries:
            raise WrongInput(
                f"{folder.path / 'vocab.json'}: the id {number!r:.60}; allowed: 0 to {entries - 1}"
            )
        pieces[number] = piece
    begin = asked.number("decoder_start_token_id", entries - 1, least=0, most=entries - 1)
    end = asked.number("eos_token_id", 0, least=0, most=entries - 1)
    unknown = ids.get("<unk>", 1)
    languages = list[Language]()
    for name in ("source.spm", "target.spm"):
        content = folder.bytes(name)
        if content is None:
            raise WrongInput(f"{folder.path} has no {name}")
        model = base64.b64encode(content).decode()
        vocabulary = SentencePieces(model=model, pieces=tuple(pieces), unknown=unknown, begin=begin, end=end)
        vocabulary.tokens("a")  # the file can be read
        languages.append(Language(vocabulary=vocabulary))
    return languages[0], languages[1]
