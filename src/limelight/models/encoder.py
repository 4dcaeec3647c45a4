"""Tokens or vectors -> an encoded sequence: what every sequence model begins with."""

from typing import Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from limelight.config import Config
from limelight.models.sizes import Sizes
from limelight.nn import Encoder, LearnedPositions, SinusoidalPositions, padding_mask


class EncoderConfig(Config):
    width: int = Field(32, ge=1, le=65_536)
    depth: int = Field(1, ge=1, le=1_000)
    heads: int = Field(1, ge=1, le=65_536)
    hidden: int = Field(64, ge=1, le=1_000_000)
    activation: Literal["relu", "gelu"] = "relu"
    norm: Literal["post", "pre"] = "post"
    positions: Literal["none", "sinusoidal", "learned"] = "sinusoidal"
    causal: bool = False  # each item sees itself and what came before it, and nothing after
    dropout: float = Field(0.0, ge=0, lt=1)
    input_dropout: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads is {self.heads}; allowed: a divisor of width={self.width}")
        return self


class SequenceEncoder(nn.Module):
    """Input network, positions, encoder. The input network is an embedding, or a projection of vectors."""

    def __init__(self, config: EncoderConfig, sizes: Sizes, extra: int = 0) -> None:
        """`extra` is the number of items that a model adds to each sequence."""
        super().__init__()
        width = config.width
        self.causal = config.causal
        self.longest = sizes.longest + extra
        self.input: nn.Module = (
            nn.Embedding(sizes.vocabulary, width) if sizes.vocabulary else nn.Linear(sizes.features, width)
        )
        self.dropout = nn.Dropout(config.input_dropout)
        self.positions: nn.Module = nn.Identity()
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(width)
        elif config.positions == "learned":
            self.positions = LearnedPositions(width, self.longest)
        self.encoder = Encoder(
            config.depth,
            width,
            config.heads,
            config.hidden,
            activation=config.activation,
            dropout=config.dropout,
            norm=config.norm,
        )

    def embed(self, inputs: Tensor) -> Tensor:
        """(B, T) | (B, T, features) -> (B, T, D)"""
        if isinstance(self.input, nn.Embedding):
            return self.dropout(self.input(inputs))
        return self.input(self.dropout(inputs))

    def encode(self, embedded: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, D), (B) -> (B, T, D)"""
        mask = None if lengths is None else padding_mask(lengths, embedded.shape[1])
        return self.encoder(self.positions(embedded), mask, causal=self.causal)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) | (B, T, features), (B) -> (B, T, D)"""
        return self.encode(self.embed(inputs), lengths)


def output_network(width: int, outputs: int, dropout: float) -> nn.Sequential:
    """(..., D) -> (..., L)"""
    return nn.Sequential(
        nn.Linear(width, width),
        nn.LayerNorm(width),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(width, outputs),
    )
