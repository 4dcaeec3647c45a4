"""Settings that all Transformer models share."""

from typing import Literal, Self

from pydantic import Field, model_validator
from torch import nn

from limelight.models.config import ModelConfig
from limelight.nn import BlockConfig, LearnedPositions, SinusoidalPositions


class BlockSettings(ModelConfig):
    """The settings of the blocks of a Transformer model."""

    width: int = Field(32, ge=1, le=65_536, description="model width: the size of the vector of a token")
    heads: int = Field(1, ge=1, le=65_536, description="attention heads per layer; a divisor of width")
    hidden: int = Field(64, ge=1, le=1_000_000, description="hidden units of the feed-forward network")
    activation: Literal["relu", "gelu"] = Field(
        "relu", description="activation function of the feed-forward network"
    )
    norm: Literal["post", "pre"] = Field(
        "post", description="layer norm after each residual connection (post) or before each sub-layer (pre)"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout probability of the output of each sub-layer")
    inner_dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="dropout probability of attention weights and feed-forward units; default: dropout",
    )

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads is {self.heads}; allowed: a divisor of width={self.width}")
        return self

    @property
    def block_config(self) -> BlockConfig:
        """The settings of one block, for an encoder or a decoder."""
        return BlockConfig(
            width=self.width,
            heads=self.heads,
            hidden=self.hidden,
            activation=self.activation,
            norm=self.norm,
            dropout=self.dropout,
            inner_dropout=self.inner_dropout,
        )

    def _block_words(self, positions: str) -> list[str]:
        """The parts of a summary that all Transformers share."""
        heads = f"{count(self.heads, 'head')} of width {self.width // self.heads}"
        return [heads, f"{self.norm}-norm", f"{'no' if positions == 'none' else positions} positions"]


def build_positions(kind: str, width: int, longest: int) -> nn.Module:
    """Positions of kind none, sinusoidal or learned, for sequences of at most `longest` items."""
    if kind == "none":
        return nn.Identity()
    return SinusoidalPositions(width) if kind == "sinusoidal" else LearnedPositions(width, longest)


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 layer", "2 layers"."""
    return f"{number} {noun}{'s' * (number > 1)}"
