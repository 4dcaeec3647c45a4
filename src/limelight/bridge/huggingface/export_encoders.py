"""Encoders of runs as BERT, or as DistilBERT if their output network has a ReLU."""

from typing import Any

import torch

from limelight.bridge.huggingface.bert import ANSWERS, POOLINGS, encoder_names
from limelight.bridge.huggingface.bert_layouts import LAYOUTS
from limelight.bridge.huggingface.exported import (
    ACTIVATIONS,
    Export,
    Weights,
    attention_dropout,
    check_settings,
    heads_of,
    renamed,
)
from limelight.bridge.huggingface.imported import linear_names
from limelight.data.text.symbols import Answers
from limelight.errors import WrongInput
from limelight.models.classifier import ClassifierConfig
from limelight.models.embedder import EmbedderConfig
from limelight.models.encoder import EncoderConfig

TABLE, SEGMENTS = "encoder.positions.table", "encoder.segments.vectors.weight"
EMBEDDING = "encoder.input.weight"


def export_encoder(config: EncoderConfig, task: Any, weights: Weights) -> Export:
    """BERT (Devlin et al. 2019) with the output network of the run."""
    if isinstance(config, ClassifierConfig) and config.head == "relu":
        return _distilbert(config, task, weights)
    _check(config, "BERT")
    if isinstance(config, ClassifierConfig):
        check_settings(config, "BERT", {"head": ("tanh", "relu"), "pooling": ("first",), "linear": (0.0,)})
    if isinstance(config, EmbedderConfig):
        check_settings(config, "sentence-transformers", {"pooling": tuple(POOLINGS.values())})
    layout, types = LAYOUTS["bert"], 2 if SEGMENTS in weights else 1
    names = encoder_names(layout, config.depth)
    if isinstance(config, ClassifierConfig):
        names |= linear_names(layout.classes)
    else:
        names |= linear_names(layout.masked) | {"output.bias": layout.masked_bias}
    found = renamed(weights, names)
    if types == 1:
        found[names[SEGMENTS]] = torch.zeros(1, config.width)
    settings = {
        "model_type": "bert",
        "type_vocab_size": types,
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": attention_dropout(config),
    }
    settings |= _sizes(config, weights, layout.settings)
    if isinstance(config, EmbedderConfig):
        found = {name.removeprefix(layout.prefix): tensor for name, tensor in found.items()}
        return _embedder(config, settings, found, weights)
    if isinstance(config, ClassifierConfig):
        settings |= _classes(task.answers)
        kind = ("BertForSequenceClassification", "AutoModelForSequenceClassification")
        return Export(*kind, settings, found, weights, notes=_answer_notes(task.answers))
    return Export("BertForMaskedLM", "AutoModelForMaskedLM", settings, found, weights)


def _distilbert(config: ClassifierConfig, task: Any, weights: Weights) -> Export:
    _check(config, "DistilBERT")
    check_settings(config, "DistilBERT", {"pooling": ("first",), "linear": (0.0,), "norm_epsilon": (1e-12,)})
    layout = LAYOUTS["distilbert"]
    if SEGMENTS in weights and bool(weights[SEGMENTS].any()):
        raise WrongInput("model.segments is true; DistilBERT of transformers has no segments")
    names = encoder_names(layout, config.depth) | linear_names(layout.classes)
    found = renamed({name: one for name, one in weights.items() if name != SEGMENTS}, names)
    settings = {"model_type": "distilbert", "sinusoidal_pos_embds": False, "dropout": config.dropout}
    settings |= _sizes(config, weights, layout.settings) | _classes(task.answers)
    kind = ("DistilBertForSequenceClassification", "AutoModelForSequenceClassification")
    return Export(*kind, settings, found, weights, notes=_answer_notes(task.answers))


def _check(config: EncoderConfig, family: str) -> None:
    allowed: dict[str, tuple[Any, ...]] = {
        "norm": ("post",),
        "positions": ("learned",),
        "embedding_norm": (True,),
        "feedforward": ("plain",),
        "bias": ("all",),
        "key_value_heads": heads_of(config),
        "query_key_norm": (False,),
        "causal": (False,),
        "window": (0,),
    }
    check_settings(config, family, allowed)


def _sizes(config: EncoderConfig, weights: Weights, names: Any) -> dict[str, Any]:
    if EMBEDDING not in weights or weights[EMBEDDING].dim() != 2 or TABLE not in weights:
        raise WrongInput("the inputs are vectors; the encoders of transformers read tokens")
    found = {names[name]: getattr(config, name) for name in ("width", "heads", "hidden", "depth")}
    found[names["activation"]] = ACTIVATIONS[config.activation]
    found |= {"vocab_size": len(weights[EMBEDDING]), "max_position_embeddings": len(weights[TABLE])}
    return found | {"pad_token_id": None, "tie_word_embeddings": True}


def _classes(answers: Answers) -> dict[str, Any]:
    """The names of the classes; other kinds of answers have their own setting, which an import reads."""
    if answers.kind == "class":
        return named_classes(answers.names) | {"problem_type": "single_label_classification"}
    yes_no = answers.kind == "yes-no"
    found = named_classes((answers.names[1],) if yes_no else ("number",))
    found["problem_type"] = "multi_label_classification" if yes_no else "regression"
    return found | {ANSWERS: answers.model_dump(mode="json")}


def named_classes(names: tuple[str, ...]) -> dict[str, Any]:
    """The names of classes by number, and the numbers by name."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


def _answer_notes(answers: Answers) -> tuple[str, ...]:
    if answers.kind == "yes-no":
        return (f"the sigmoid of the only logit is the probability of {answers.names[1]!r}",)
    if answers.kind == "number" and (answers.mean, answers.deviation) != (0.0, 1.0):
        return (f"the number is logit × {answers.deviation!r} + {answers.mean!r}",)
    return ()


def _embedder(config: EmbedderConfig, settings: dict[str, Any], found: Weights, ours: Weights) -> Export:
    """With the files that sentence-transformers reads."""
    kinds = ["Transformer", "Pooling", *["Normalize"] * config.unit]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": paths[number],
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    modes = {key: mode == config.pooling for key, mode in POOLINGS.items()}
    files = {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": config.width, **modes},
        "sentence_bert_config.json": {
            "max_seq_length": settings["max_position_embeddings"],
            "do_lower_case": False,
        },
    }
    note = "there is no pooler: transformers reports that its weights are new; the vectors do not need it"
    return Export("BertModel", "AutoModel", settings, found, ours, files, (note,))
