"""Marian: the translators of OPUS-MT (Junczys-Dowmunt et al. 2018)."""

import base64
from typing import Any

import torch
from torch import Tensor

from limelight.bridge.huggingface.bert_layouts import ACTIVATIONS
from limelight.bridge.huggingface.folder import Asked, ModelFolder
from limelight.bridge.huggingface.imported import Plan, linear_names
from limelight.config import read_json
from limelight.data.text.sentence_pieces import SentencePieces
from limelight.data.text.translation_data import Language
from limelight.errors import WrongInput
from limelight.models.transformer import TransformerConfig
from limelight.nn.positions import sinusoids
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


TABLES = {
    "source_positions.table": "model.encoder.embed_positions.weight",
    "target_positions.table": "model.decoder.embed_positions.weight",
}
END, PAD = "</s>", "<pad>"  # the names of [end] and [begin]


def plan(folder: ModelFolder, wanted: str) -> Plan:
    """What becomes of a folder with a translator."""
    asked = Asked(folder.config, folder.path / "config.json")
    if wanted not in ("", "translate"):
        raise WrongInput(f"--task is {wanted!r}; allowed for this model: translate")
    for key in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        asked.must_be(key, False)
    asked.must_be("scale_embedding", True)
    tied = _tied(asked)
    entries = asked.number("vocab_size", most=2_000_000)
    of_target = asked.number("decoder_vocab_size", entries, most=2_000_000)
    if tied == "all":
        asked.must_be("decoder_vocab_size", entries)
    heads, hidden = asked.number("encoder_attention_heads"), asked.number("encoder_ffn_dim")
    asked.must_be("decoder_attention_heads", heads)
    asked.must_be("decoder_ffn_dim", hidden)
    encoder, decoder = (asked.number(f"{part}_layers", most=1_000) for part in ("encoder", "decoder"))
    learned = _has_other_positions(folder)
    settings: dict[str, Any] = {
        "width": asked.number("d_model"),
        "heads": heads,
        "hidden": hidden,
        "activation": asked.choice("activation_function", ACTIVATIONS, "gelu"),
        "norm": "post",
        "positions": "learned" if learned else "sinusoidal-halves",
        "encoder_depth": encoder,
        "decoder_depth": decoder,
        "tied": tied,
        "output_bias": True,
    }
    names = marian_names(encoder, decoder, tied) | (TABLES if learned else {})
    state = _state(folder, asked, entries, of_target)
    unused = ("model.encoder.embed_", "model.decoder.embed_", "model.shared.", "lm_head.")
    data = {"data": {"kind": "pairs"}}
    return Plan(TranslateConfig, data, TransformerConfig, settings, state, names, _prepare, unused)


def _tied(asked: Asked) -> str:
    """Which layers share one matrix."""
    shared, tied = (
        asked.flag(key, True) for key in ("share_encoder_decoder_embeddings", "tie_word_embeddings")
    )
    if shared and not tied:
        raise WrongInput(
            f"{asked.place}: tie_word_embeddings is False; limelight has only True for shared embeddings"
        )
    return "all" if shared else "output" if tied else "nothing"


def marian_names(encoder: int, decoder: int, tied: str) -> dict[str, str]:
    """The names of all tensors but positions, ours -> theirs."""
    names = {"target_embedding.weight": "model.shared.weight", "output.bias": "final_logits_bias"}
    if tied != "all":
        names["target_embedding.weight"] = "model.decoder.embed_tokens.weight"
        names["source_embedding.weight"] = "model.encoder.embed_tokens.weight"
    if tied == "nothing":
        names["output.weight"] = "lm_head.weight"
    for number in range(encoder):
        names |= linear_names(SELF, f"encoder.blocks.{number}.", f"model.encoder.layers.{number}.")
    for number in range(decoder):
        names |= linear_names(SELF | CROSS, f"decoder.blocks.{number}.", f"model.decoder.layers.{number}.")
    return names


def _has_other_positions(folder: ModelFolder) -> bool:
    """Whether the file has other positions than the sinusoids that transformers computes otherwise."""
    tables = [folder.tensor(name) for name in TABLES.values()]
    return any(
        table is not None
        and table.dim() == 2
        and not torch.allclose(table, sinusoids(*table.shape, layout="halves"), atol=1e-2)
        for table in tables
    )


def _prepare(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    found = dict(weights)
    if "final_logits_bias" in found:
        found["final_logits_bias"] = found["final_logits_bias"][0]
    return found


def _state(folder: ModelFolder, asked: Asked, entries: int, of_target: int) -> TranslateState:
    """The vocabularies: those of the tokenizer, or those of the run that limelight exported."""
    own = folder.text("data.json")
    if own is not None and folder.text("vocab.json") is None:
        return read_json(TranslateState, own, str(folder.path / "data.json"))
    separate = folder.text("target_vocab.json") is not None
    begin = asked.number("decoder_start_token_id", of_target - 1, least=0, most=of_target - 1)
    end = asked.number("eos_token_id", 0, least=0, most=of_target - 1)
    languages = [
        _language(folder, "vocab.json", "source.spm", entries, None if separate else (begin, end)),
        _language(
            folder, "target_vocab.json" if separate else "vocab.json", "target.spm", of_target, (begin, end)
        ),
    ]
    longest = asked.number("max_position_embeddings", 512)
    return TranslateState(source=languages[0], target=languages[1], longest=longest)


def _language(
    folder: ModelFolder, ids_file: str, model_file: str, entries: int, ends: tuple[int, int] | None
) -> Language:
    """A vocabulary; without `ends`, the ids of [begin] and [end] are those of their names."""
    ids = folder.json(ids_file)
    if ids is None:
        raise WrongInput(f"{folder.path} has no {ids_file}")
    pieces = [f"[unused {number}]" for number in range(entries)]
    for piece, number in ids.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < entries:
            raise WrongInput(f"{folder.path / ids_file}: the id {number!r:.60}; allowed: 0 to {entries - 1}")
        pieces[number] = piece
    if ends is None:
        if PAD not in ids or END not in ids:
            raise WrongInput(f"{folder.path / ids_file} has no {PAD} or no {END}")
        ends = ids[PAD], ids[END]
    content = folder.bytes(model_file)
    if content is None:
        raise WrongInput(f"{folder.path} has no {model_file}")
    vocabulary = SentencePieces(
        model=base64.b64encode(content).decode(),
        pieces=tuple(pieces),
        unknown=ids.get("<unk>", 1),
        begin=ends[0],
        end=ends[1],
    )
    vocabulary.tokens("a")  # the file can be read
    return Language(vocabulary=vocabulary)
