"""What every model config has in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field
from torch import nn

from limelight.config import Config
from limelight.models.sizes import Sizes

# Settings that do not change what trained weights mean.
OF_TRAINING = ("dropout", "inner_dropout", "input_dropout", "patch_dropout", "stochastic_depth", "unknown")


class ModelConfig(Config, ABC):
    """The settings of a model. Subclasses have a `kind`, by which recipes name them."""

    kind: str = Field(description="the kind of model")

    parts: ClassVar[Mapping[str, str]] = {}
    """The names of its embedding, positions and stack, for weights from another kind of model."""

    @abstractmethod
    def build(self, sizes: Sizes) -> nn.Module:
        """The model, with weights at initialisation."""

    def settings_like(self, other: "ModelConfig") -> dict[str, Any]:
        """The settings of another model that this model has, too, and that give its weights their meaning."""
        found, there = dict[str, Any](), type(other).model_fields
        for name, field in type(self).model_fields.items():
            same = name not in there or there[name].annotation == field.annotation
            if same and hasattr(other, name) and name not in ("kind", *OF_TRAINING):
                found[name] = getattr(other, name)
        return found

    @property
    def attention_note(self) -> str:
        """What a reader of the attention maps should know about this model; empty if there is nothing."""
        return ""

    @property
    def summary(self) -> str:
        """The model in one line."""
        return self.kind
