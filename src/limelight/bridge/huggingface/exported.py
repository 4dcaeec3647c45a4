"""What is written for transformers: an architecture, its settings, and weights with its names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from limelight.errors import WrongInput
from limelight.models.config import ModelConfig

Weights = dict[str, Tensor]
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu"}  # ours -> theirs


@dataclass(frozen=True)
class Export:
    """A model in the terms of transformers.

    `ours` are the weights that an import finds: those of the run, except for permutations that change
    nothing in the outputs.
    """

    architecture: str
    auto: str  # the class that loads it by its config.json
    config: dict[str, Any]
    weights: Weights
    ours: Weights
    files: Mapping[str, Any] = field(default_factory=dict)  # name -> bytes, or an object for JSON
    notes: tuple[str, ...] = ()
    usage: str = ""  # lines of Python after `model` and `tokenizer`


def check_settings(config: ModelConfig, family: str, allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse the first setting that has no counterpart in an architecture."""
    for name, values in allowed.items():
        found = getattr(config, name)
        if found not in values:
            only = " or ".join(map(repr, values))
            raise WrongInput(f"model.{name} is {found!r}; {family} of transformers has only {only}")


def renamed(ours: Weights, names: Mapping[str, str]) -> Weights:
    """The weights with the names of another library."""
    return {names[name]: tensor.contiguous() for name, tensor in ours.items()}


def heads_of(config: Any) -> tuple[Any, ...]:
    """The values of `key_value_heads` without grouped queries."""
    return None, config.heads


def map_weights(weights: Weights, change: Callable[[str, Tensor], Tensor]) -> Weights:
    """A function of each name and tensor."""
    with torch.no_grad():
        return {name: change(name, tensor) for name, tensor in weights.items()}


def attention_dropout(config: Any) -> float:
    """The dropout of attention weights."""
    return float(config.dropout if config.inner_dropout is None else config.inner_dropout)
