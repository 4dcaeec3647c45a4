"""What the blocks of every Transformer are told."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from limelight.config import Config
from limelight.nn import LearnedPositions, SinusoidalPositions


class BlocksConfig(Config):
    width: int = Field(32, ge=1, le=65_536)
    heads: int = Field(1, ge=1, le=65_536)
    hidden: int = Field(64, ge=1, le=1_000_000)
    activation: Literal["relu", "gelu"] = "relu"
    norm: Literal["post", "pre"] = "post"
    dropout: float = Field(0.0, ge=0, lt=1)
    # Of attention weights and feed-forward units; as `dropout` unless named.
    inner_dropout: float | None = Field(None, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads is {self.heads}; allowed: a divisor of width={self.width}")
        return self

    @property
    def of_blocks(self) -> dict[str, Any]:
        """The arguments of an encoder or a decoder beside its depth."""
        return {key: getattr(self, key) for key in BlocksConfig.model_fields}


def positions(kind: str, width: int, longest: int) -> nn.Module:
    """`kind` is none, sinusoidal or learned, for sequences of up to `longest` items."""
    if kind == "none":
        return nn.Identity()
    return SinusoidalPositions(width) if kind == "sinusoidal" else LearnedPositions(width, longest)
