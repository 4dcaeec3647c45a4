"""Translators of runs as Marian."""

import base64
from typing import Any

import torch
from torch import Tensor

from limelight.bridge.huggingface.exported import (
    ACTIVATIONS,
    Export,
    Weights,
    check_settings,
    heads_of,
    map_weights,
    renamed,
)
from limelight.bridge.huggingface.marian import END, PAD, TABLES, marian_names
from limelight.data.text.sentence_pieces import SentencePieces
from limelight.data.text.translation_data import Language
from limelight.data.text.vocabulary import Subwords
from limelight.models.transformer import TransformerConfig
from limelight.tasks.translate.task import TranslateState

LEAST = 512  # positions of the sinusoids, which are computed
BEAMS = 4
# The axes of each kind of tensor that have the width of the model, by the end of its name.
OF_WIDTH = {
    "embedding.weight": (1,),
    "norm.weight": (0,),
    "norm.bias": (0,),
    "query.weight": (1,),
    "key.weight": (1,),
    "value.weight": (1,),
    "attention.output.weight": (0,),
    "attention.output.bias": (0,),
    "expand.weight": (1,),
    "contract.weight": (0,),
    "contract.bias": (0,),
}


def export_translator(config: TransformerConfig, task: Any, weights: Weights) -> Export:
    """Marian (Junczys-Dowmunt et al. 2018), with its order of sinusoids or with a table of positions."""
    allowed: dict[str, tuple[Any, ...]] = {
        "norm": ("post",),
        "norm_epsilon": (None, 1e-5),
        "feedforward": ("plain",),
        "bias": ("all",),
        "key_value_heads": heads_of(config),
        "query_key_norm": (False,),
        "positions": ("sinusoidal", "sinusoidal-halves", "learned"),
        "window": (0,),
    }
    check_settings(config, "Marian", allowed)
    state = TranslateState.model_validate_json(task.state)
    target = weights["target_embedding.weight"]
    ours = {"output.bias": torch.zeros(len(target)), **weights}
    notes = [f"greedy and beam search of transformers ban {PAD}, with which translations begin"]
    if config.positions == "sinusoidal":
        ours = _in_halves(ours, config.width)
        notes.append("the features of the model are in another order, in which Marian has its sinusoids")
    learned = config.positions == "learned"
    names = marian_names(config.encoder_depth, config.decoder_depth, config.tied)
    found = renamed(ours, names | (TABLES if learned else {}))
    found["final_logits_bias"] = found["final_logits_bias"].unsqueeze(0)
    if learned:
        notes.append("transformers does not save the table of positions again: keep this file for it")
    longest = max(LEAST, state.longest) if config.positions == "sinusoidal" else state.longest
    settings = _settings(config, state, longest)
    files, more = _tokenizer(state, longest, shared=config.tied == "all")
    files["generation_config.json"] = {
        "decoder_start_token_id": state.target.begin,
        "pad_token_id": state.target.begin,
        "eos_token_id": state.target.end,
        "bad_words_ids": [[state.target.begin]],
        "num_beams": BEAMS,
        "max_length": longest,
    }
    return Export(
        *("MarianMTModel", "AutoModelForSeq2SeqLM", settings, found, ours, files), notes=(*notes, *more)
    )


def _settings(config: TransformerConfig, state: TranslateState, longest: int) -> dict[str, Any]:
    return {
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": state.source.size,
        "decoder_vocab_size": state.target.size,
        "share_encoder_decoder_embeddings": config.tied == "all",
        "tie_word_embeddings": config.tied != "nothing",
        "d_model": config.width,
        "scale_embedding": True,
        "encoder_layers": config.encoder_depth,
        "decoder_layers": config.decoder_depth,
        **{f"{side}_attention_heads": config.heads for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": config.hidden for side in ("encoder", "decoder")},
        "activation_function": ACTIVATIONS[config.activation],
        "dropout": config.dropout,
        "max_position_embeddings": longest,
        "decoder_start_token_id": state.target.begin,
        "eos_token_id": state.target.end,
        "forced_eos_token_id": None,
        # Both tables need a row with this number; batches are padded with [begin] of their language.
        "pad_token_id": min(state.source.begin, state.target.begin),
    }


def _in_halves(weights: Weights, width: int) -> Weights:
    """The features of the model in the order in which all sines come before all cosines.

    Nothing else depends on their order. An odd width has one sine more than cosines in both orders.
    """
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))

    def permute(name: str, tensor: Tensor) -> Tensor:
        axes = next((axes for end, axes in OF_WIDTH.items() if name.endswith(end)), ())
        axes = (1,) if name == "output.weight" else axes
        for axis in axes:
            tensor = tensor.index_select(axis, order)
        return tensor

    return map_weights(weights, permute)


def _tokenizer(
    state: TranslateState, longest: int, *, shared: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The files of MarianTokenizer, if it can have the same ids."""
    sides = {"source": state.source, "target": state.target}
    if not all(_is_exact(language) for language in sides.values()):
        kinds = {_kind(language) for language in sides.values()}
        note = (
            f"no tokenizer: Marian's cannot read {' and '.join(sorted(kinds))}; data.json has the vocabulary"
        )
        return {"data.json": state.model_dump_json().encode()}, (note,)
    files: dict[str, Any] = {
        f"{side}.spm": base64.b64decode(language.vocabulary.model)  # type: ignore[union-attr]
        for side, language in sides.items()
    }
    ids = {side: {piece: number for number, piece in enumerate(_pieces(one))} for side, one in sides.items()}
    ids = {side: {p: n for p, n in all.items() if p != f"[unused {n}]"} for side, all in ids.items()}
    files["vocab.json"] = ids["source"]
    if not shared:
        files["target_vocab.json"] = ids["target"]
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "source",
        "target_lang": "target",
        "separate_vocabs": not shared,
        "model_max_length": longest,
        "unk_token": _pieces(state.source)[_unknown(state.source)],
        "eos_token": _pieces(state.source)[state.source.end],
        "pad_token": _pieces(state.source)[state.source.begin],
    }
    return files, ()


def _kind(language: Language) -> str:
    return language.vocabulary.kind + (" in lower case" if language.plain else "")


def _is_exact(language: Language) -> bool:
    return isinstance(language.vocabulary, SentencePieces | Subwords) and not language.plain


def _unknown(language: Language) -> int:
    return language.vocabulary.unknown if isinstance(language.vocabulary, SentencePieces) else 0


def _pieces(language: Language) -> list[str]:
    """The subwords of a language; [begin] and [end] have the names of Marian."""
    vocabulary = language.vocabulary
    if isinstance(vocabulary, SentencePieces):
        return list(vocabulary.pieces)
    found = vocabulary.item_names(torch.arange(vocabulary.size))
    return [*found, PAD, END]
