"""Small runs of our own recipes with settings for which transformers has an equal architecture."""

from pathlib import Path
from typing import Any

import torch
from small_recipes import small
from support import roughen
from torch import nn

import limelight
from limelight.experiment import Run
from limelight.training.progress import Watcher

SIZES = {"model.width": 20, "model.heads": 2, "model.hidden": 13}
BERT = {"model.norm": "post", "model.positions": "learned", "model.embedding_norm": True, "model.depth": 2}
GPT2 = {"model.norm": "pre", "model.positions": "learned", "model.query_key_norm": False, "model.depth": 2}
LLAMA = {
    "model.norm": "pre-rms",
    "model.feedforward": "swiglu",
    "model.bias": "none",
    "model.query_key_norm": False,
    "model.key_value_heads": 1,
    "model.depth": 2,
}
LETTERS = {"task.data.limit": 40, "task.data.context": 23}
FIRST = {"model.pooling": "first", "model.head": "tanh"}
TEXT = FIRST | {"model.linear": 0.0, "model.unknown": 0.0, "model.input_dropout": 0.0}
VIT = {"model.positions": "learned", "model.init": "xavier", "model.depth": 2}
MARIAN = {"model.norm": "post", "model.encoder_depth": 2, "model.decoder_depth": 1}
OWN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "masked words": ("BertForMaskedLM", "masked", BERT),
    "masked characters": ("BertForMaskedLM", "masked", BERT | {"task.data.vocabulary": "characters"}),
    "masked bytes": (
        "BertForMaskedLM",
        "masked",
        BERT | {"task.data.vocabulary": "bytes", "model.segments": True, "model.activation": "gelu-tanh"},
    ),
    "classes of words": (
        "BertForSequenceClassification",
        "text",
        BERT | TEXT | {"task.data.vocabulary": "words"},
    ),
    "classes of subwords": (
        "BertForSequenceClassification",
        "text",
        BERT | TEXT | {"task.data.vocabulary": "subwords"},
    ),
    "classes, ReLU": (
        "DistilBertForSequenceClassification",
        "text",
        BERT | TEXT | {"task.data.vocabulary": "words", "model.head": "relu", "model.norm_epsilon": 1e-12},
    ),
    "yes or no": ("BertForSequenceClassification", "brackets", BERT | FIRST | {"model.causal": False}),
    "a number": ("BertForSequenceClassification", "count", BERT | FIRST),
    "pairs": ("BertForSequenceClassification", "pairs", BERT | FIRST),
    "GPT-2, bytes": ("GPT2LMHeadModel", "language", GPT2 | LETTERS | {"task.data.vocabulary": "bytes"}),
    "GPT-2, ReLU": (
        "GPT2LMHeadModel",
        "language",
        GPT2 | LETTERS | {"task.data.vocabulary": "characters", "model.activation": "relu"},
    ),
    "Llama, interleaved": (
        "LlamaForCausalLM",
        "language",
        LLAMA
        | LETTERS
        | {
            "task.data.vocabulary": "subwords",
            "task.data.vocabulary_size": 700,
            "model.positions": "rotary-interleaved",
            "model.rotary_scaling": [8.0, 1.0, 4.0, 11.0],
        },
    ),
    "Llama, biases": (
        "LlamaForCausalLM",
        "language",
        LLAMA | LETTERS | {"model.bias": "all", "model.tied": False, "task.data.vocabulary": "words"},
    ),
    "Mistral": (
        "MistralForCausalLM",
        "language",
        LLAMA | LETTERS | {"model.window": 5, "task.data.vocabulary": "bytes"},
    ),
    "Qwen 2": (
        "Qwen2ForCausalLM",
        "language",
        LLAMA | LETTERS | {"model.bias": "query-key-value", "task.data.vocabulary": "bytes"},
    ),
    "ViT": ("ViTForImageClassification", "digits", VIT),
    "ViT, colours": ("ViTForImageClassification", "images", VIT | {"task.data.size": 8, "model.patch": 4}),
    "DeiT": ("DeiTForImageClassificationWithTeacher", "digits", VIT | {"model.distillation": "output"}),
    "DeiT, one output": ("DeiTForImageClassification", "digits", VIT | {"model.distillation": "token"}),
    "Marian, words": ("MarianMTModel", "translate", MARIAN),
    "Marian, subwords": (
        "MarianMTModel",
        "translate",
        MARIAN
        | {
            "task.vocabulary.kind": "subwords",
            "task.vocabulary.plain_source": False,
            "task.vocabulary.shared": True,
            "task.vocabulary.size": 17,
            "model.tied": "all",
            "model.output_bias": True,
            "model.activation": "silu",
        },
    ),
    "Marian, two vocabularies": (
        "MarianMTModel",
        "translate",
        MARIAN
        | {
            "task.vocabulary.kind": "subwords",
            "task.vocabulary.plain_source": False,
            "task.vocabulary.size": 17,
            "model.tied": "output",
            "model.positions": "learned",
        },
    ),
}


class Notes(Watcher):
    """Collects the notes."""

    def __init__(self) -> None:
        self.texts = list[str]()

    def note(self, text: str) -> None:
        self.texts.append(text)


def trained(recipe: str, settings: dict[str, Any], folder: Path) -> Run:
    """A run of a recipe after a few steps, with random norms and biases."""
    own, data = small(recipe, folder)
    run = limelight.train(recipe, own | SIZES | settings, folder / "run", data=data, device="cpu")
    torch.manual_seed(5)
    roughen(run.model)
    with torch.no_grad():
        for parameter in run.model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.3)
    return run
