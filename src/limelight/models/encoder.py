"""Tokens or vectors -> an encoded sequence: what every sequence model begins with."""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from limelight.models.blocks import BlocksConfig, positions
from limelight.models.sizes import Sizes
from limelight.nn import Dropout, Encoder, padding_mask


class EncoderConfig(BlocksConfig):
    depth: int = Field(1, ge=1, le=1_000)
    positions: Literal["none", "sinusoidal", "learned"] = "sinusoidal"
    causal: bool = False  # each item sees itself and what came before it, and nothing after
    input_dropout: float = Field(0.0, ge=0, lt=1)


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
        self.dropout = Dropout(config.input_dropout)
        self.positions = positions(config.positions, width, self.longest)
        self.encoder = Encoder(config.depth, **config.of_blocks)

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
        Dropout(dropout),
        nn.Linear(width, outputs),
    )
