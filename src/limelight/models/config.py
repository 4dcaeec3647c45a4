"""What every model config has in common."""

from abc import ABC, abstractmethod

from pydantic import Field
from torch import nn

from limelight.config import Config
from limelight.models.sizes import Sizes


class ModelConfig(Config, ABC):
    """The settings of a model. Subclasses have a `kind`, by which recipes name them."""

    kind: str = Field(description="the kind of model")

    @abstractmethod
    def build(self, sizes: Sizes) -> nn.Module:
        """The model, with weights at initialisation."""

    @property
    def attention_note(self) -> str:
        """What a reader of the attention maps should know about this model; empty if there is nothing."""
        return ""

    @property
    def summary(self) -> str:
        """The model in one line."""
        return self.kind
