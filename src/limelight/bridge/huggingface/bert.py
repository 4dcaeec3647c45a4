"""BERT, RoBERTa and DistilBERT: encoders with vectors, hidden tokens or classes as outputs."""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from limelight.bridge.huggingface.bert_layouts import ACTIVATIONS, LAYOUTS, Layout
from limelight.bridge.huggingface.folder import Asked, ModelFolder
from limelight.bridge.huggingface.imported import Plan, linear_names
from limelight.bridge.huggingface.tokenizers import read_tokenizer
from limelight.config import read_json
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.symbols import Answers
from limelight.data.text.text_pair import TextPair
from limelight.errors import WrongInput
from limelight.models.classifier import ClassifierConfig
from limelight.models.embedder import EmbedderConfig
from limelight.models.masked_encoder import MaskedEncoderConfig
from limelight.tasks.embed.task import EmbedConfig, EmbedState
from limelight.tasks.masked.task import MaskedConfig, MaskedState
from limelight.tasks.pairs.task import PairsConfig
from limelight.tasks.sequence.classify import ClassifyConfig
from limelight.tasks.sequence.shared import SequenceState

KINDS = {
    "Model": "embed",
    "ForMaskedLM": "masked",
    "ForPreTraining": "masked",
    "ForSequenceClassification": "classify",
}
POOLINGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}
ANSWERS = "limelight_answers"  # a setting of exports: kinds of answers that transformers does not have


def plan(folder: ModelFolder, wanted: str) -> Plan:
    """What becomes of a folder of this family; `wanted` is the task, if it was chosen."""
    asked = Asked(folder.config, folder.path / "config.json")
    layout = LAYOUTS[folder.config["model_type"]]
    names = layout.settings
    asked.must_be("position_embedding_type", "absolute")
    asked.must_be("is_decoder", False)
    asked.must_be("add_cross_attention", False)
    asked.must_be("tie_word_embeddings", True)
    asked.must_be("sinusoidal_pos_embds", False)
    asked.must_be("chunk_size_feed_forward", 0)
    types = asked.number("type_vocab_size", 2) if layout.types else 0
    if types > 2:
        raise WrongInput(f"{asked.place}: type_vocab_size is {types}; limelight has 1 or 2")
    entries = asked.number("vocab_size", most=2_000_000)
    longest = asked.number("max_position_embeddings", 512) - layout.first
    settings: dict[str, Any] = {name: asked.number(names[name]) for name in ("width", "heads", "hidden")}
    settings["depth"] = asked.number(names["depth"], most=1_000)
    settings |= {
        "activation": asked.choice(names["activation"], ACTIVATIONS, "gelu"),
        "norm": "post",
        "norm_epsilon": asked.real("layer_norm_eps", 1e-12),
        "embedding_norm": True,
        "positions": "learned",
        "segments": types == 2,
    }
    kind = _kind(folder, asked, wanted)
    if kind == "masked" and folder.config["model_type"] == "roberta":
        asked.must_be("hidden_act", "gelu")  # its output network always has GELU
    reader = read_tokenizer(folder, entries, _longest(folder, longest))
    table = encoder_names(layout, settings["depth"])
    unused = ["cls.seq_relationship.", f"{layout.prefix}embeddings.position_ids"]
    unused += [f"{layout.prefix}pooler."] if kind in ("masked", "embed") else []
    unused += [] if kind == "masked" else ["cls.", "lm_head.", "vocab_"]
    parts = _Parts(layout, settings, reader, table, types, tuple(unused))
    if kind == "embed":
        return _embedder(folder, parts)
    return _masked(parts) if kind == "masked" else _classifier(asked, parts, kind)


@dataclass(frozen=True)
class _Parts:
    layout: Layout
    settings: dict[str, Any]
    reader: PretrainedTokenizer
    names: dict[str, str]
    types: int
    unused: tuple[str, ...]

    def prepare(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors with current names, their prefix, and positions from 0 on."""
        prefix = self.layout.prefix
        bare = not any(name.startswith(prefix) for name in weights)
        found = dict[str, Tensor]()
        for name, tensor in weights.items():
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            name = name.replace("LayerNorm.beta", "LayerNorm.bias")
            found[prefix + name if bare else name] = tensor
        positions, types = f"{prefix}embeddings.position_embeddings.weight", self._types
        if positions in found:
            found[positions] = found[positions][self.layout.first :][: self.reader.longest]
            if self.types == 1 and types in found:  # the only vector is added to all tokens
                found[positions] = found[positions] + found.pop(types)
        if self.types < 2:
            found[types] = torch.zeros(2, self.settings["width"])
        return found

    @property
    def _types(self) -> str:
        return f"{self.layout.prefix}embeddings.token_type_embeddings.weight"


def encoder_names(layout: Layout, depth: int) -> dict[str, str]:
    """The names of the tensors of embeddings and blocks, ours -> theirs."""
    embeddings = f"{layout.prefix}embeddings"
    found = {
        "encoder.input.weight": f"{embeddings}.word_embeddings.weight",
        "encoder.positions.table": f"{embeddings}.position_embeddings.weight",
        "encoder.segments.vectors.weight": f"{embeddings}.token_type_embeddings.weight",
    }
    found |= linear_names({"encoder.norm": f"{layout.prefix}{layout.norm}"})
    for number in range(depth):
        ours, theirs = f"encoder.encoder.blocks.{number}.", f"{layout.prefix}{layout.blocks}.{number}."
        found |= linear_names(layout.parts, ours, theirs)
    return found


def _kind(folder: ModelFolder, asked: Asked, wanted: str) -> str:
    """The task: the chosen one, or that of the architecture."""
    listed = asked.get("architectures")
    name = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else "Model"
    kind = next((task for ending, task in KINDS.items() if name.endswith(ending)), "")
    if (folder.path / "modules.json").exists():
        kind = "embed"
    if not kind:
        allowed = ", ".join(f"…{ending}" for ending in KINDS)
        raise WrongInput(f"{asked.place}: architectures is {name!r:.60}; limelight has {allowed}")
    possible = {kind, "embed"} | ({"pairs"} if kind == "classify" else set())
    if wanted and wanted not in possible:
        raise WrongInput(f"--task is {wanted!r}; allowed for this model: {', '.join(sorted(possible))}")
    return wanted or kind


def _longest(folder: ModelFolder, positions: int) -> int:
    asked = Asked(folder.json("sentence_bert_config.json") or {}, folder.path / "sentence_bert_config.json")
    return min(positions, asked.number("max_seq_length", positions))


def _embedder(folder: ModelFolder, parts: _Parts) -> Plan:
    pooling, unit, note = _pooling(folder)
    state = EmbedState(reader=parts.reader, width=parts.settings["width"])
    settings = {**parts.settings, "pooling": pooling, "unit": unit}
    return Plan(
        *(EmbedConfig, {}, EmbedderConfig, settings, state, parts.names, parts.prepare, parts.unused),
        notes=(note,),
    )


def _pooling(folder: ModelFolder) -> tuple[str, bool, str]:
    """The pooling, whether vectors have length 1, and a note."""
    modules = folder.json_list("modules.json")
    if modules is None:
        return "mean", False, "pooling: mean, because the folder names none"
    place, pooling, unit = folder.path / "modules.json", "", False
    for module in modules:
        kind = module.get("type") if isinstance(module, dict) else None
        if kind == "sentence_transformers.models.Pooling":
            pooling = _pooling_mode(folder, str(module.get("path", "")))
        elif kind == "sentence_transformers.models.Normalize":
            unit = True
        elif kind != "sentence_transformers.models.Transformer":
            raise WrongInput(f"{place}: {kind!r:.80}; limelight has Transformer, Pooling and Normalize")
    if not pooling:
        raise WrongInput(f"{place} has no Pooling")
    return pooling, unit, f"pooling: {pooling}{', vectors of length 1' * unit}"


def _pooling_mode(folder: ModelFolder, path: str) -> str:
    name = f"{path}/config.json"
    if not path or "/" in path or "\\" in path or path.startswith("."):
        raise WrongInput(f"{folder.path / 'modules.json'}: {path!r:.60} is not a folder in this folder")
    modes = folder.json(name) or {}
    chosen = [key for key, value in modes.items() if key.startswith("pooling_mode_") and value is True]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise WrongInput(
            f"{folder.path / name}: {chosen or 'no pooling mode'}; limelight has {', '.join(POOLINGS)}"
        )
    return POOLINGS[chosen[0]]


def _masked(parts: _Parts) -> Plan:
    if parts.reader.mask < 0:
        raise WrongInput("the tokenizer has no mask token")
    names = parts.names | linear_names(parts.layout.masked) | {"output.bias": parts.layout.masked_bias}
    state = MaskedState(reader=parts.reader, context=parts.reader.longest, share=0.15, whole_words=False)
    unused = (*parts.unused, "cls.predictions.decoder.", "lm_head.decoder.", "vocab_projector.weight")
    return Plan(*(MaskedConfig, {}, MaskedEncoderConfig, parts.settings, state, names, parts.prepare, unused))


def _classifier(asked: Asked, parts: _Parts, kind: str) -> Plan:
    answers, layout = _answers(asked), parts.layout
    pair = kind == "pairs"
    reader = parts.reader
    longest = reader.longest
    state = SequenceState(
        reader=TextPair(vocabulary=reader, longest=longest) if pair else reader,
        answers=answers,
        longest=longest,
    )
    settings = {**parts.settings, "pooling": "first", "head": layout.head}
    data = {"data": {"kind": "pair-table" if pair else "table"}}
    names = parts.names | linear_names(layout.classes)
    task = PairsConfig if pair else ClassifyConfig
    return Plan(task, data, ClassifierConfig, settings, state, names, parts.prepare, parts.unused)


def _answers(asked: Asked) -> Answers:
    """The classes, or a number."""
    if ANSWERS in asked:  # an export of limelight
        return read_json(Answers, json.dumps(asked.get(ANSWERS)), f"{asked.place}: {ANSWERS}")
    asked.must_be("problem_type", "single_label_classification", "regression")
    names = class_names(asked)
    if len(names) == 1 or asked.get("problem_type") == "regression":
        return Answers(kind="number")
    return Answers(kind="class", names=names)


def class_names(asked: Asked) -> tuple[str, ...]:
    """The names of the classes; of equal names, later ones have their number added."""
    names = asked.get("id2label")
    if names is None:
        names = {str(i): f"LABEL_{i}" for i in range(asked.number("num_labels", 2))}
    if not isinstance(names, dict) or set(names) != {str(i) for i in range(len(names))} or not names:
        raise WrongInput(f"{asked.place}: id2label is not a name for each class from 0 on")
    found = list[str]()
    for number in range(len(names)):
        name = str(names[str(number)])
        found.append(f"{name} ({number})" if name in found else name)
    return tuple(found)
