"""Tokens or vectors -> an encoded sequence: the first part of every sequence model."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from limelight.models.blocks import SequenceSettings, build_positions, count
from limelight.models.sizes import Sizes
from limelight.nn import Dropout, Encoder, padding_mask


class EncoderConfig(SequenceSettings):
    """The settings of a model with one encoder, which is a `SequenceEncoder` called `encoder`."""

    parts: ClassVar[Mapping[str, str]] = {
        "embedding": "encoder.input",
        "positions": "encoder.positions",
        "stack": "encoder.encoder",
    }

    depth: int = Field(1, ge=1, le=1_000, description="number of encoder blocks")
    causal: bool = Field(False, description="whether an item may attend only to itself and earlier items")
    input_dropout: float = Field(0.0, ge=0, lt=1, description="dropout probability of the inputs")

    def _encoder_words(self) -> list[str]:
        return [count(self.depth, "layer"), *self._block_words(self.positions)]


class SequenceEncoder(nn.Module):
    """Input network, positions, encoder. The input network is an embedding of tokens or a projection of
    vectors."""

    def __init__(self, config: EncoderConfig, sizes: Sizes, extra: int = 0) -> None:
        """`extra` is the number of items that the model adds to each sequence."""
        super().__init__()
        width = config.width
        self.causal = config.causal
        self.longest = sizes.longest + extra
        self.input: nn.Module = (
            nn.Embedding(sizes.vocabulary, width) if sizes.vocabulary else nn.Linear(sizes.features, width)
        )
        self.dropout = Dropout(config.input_dropout)
        self.positions = build_positions(config.positions, width, self.longest)
        self.encoder = Encoder(config.depth, config.block_config)

    def embed(self, inputs: Tensor) -> Tensor:
        """(B, T) | (B, T, ids) | (B, T, features) -> (B, T, D)

        The input network, without positions. Of an item with several ids, the first is that of its word.
        """
        if isinstance(self.input, nn.Embedding):
            inputs = inputs[..., 0] if inputs.dim() == 3 else inputs
            return self.dropout(self.input(inputs))
        return self.input(self.dropout(inputs))

    def encode(self, embedded: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, D), (B) -> (B, T, D)

        Positions and encoder; the output is zero beyond the end of a sequence.
        """
        mask = None if lengths is None else padding_mask(lengths, embedded.shape[1])
        return self.encoder(self.positions(embedded), mask, causal=self.causal)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) | (B, T, features), (B) -> (B, T, D)

        `embed`, then `encode`.
        """
        return self.encode(self.embed(inputs), lengths)


def output_network(width: int, outputs: int, dropout: float) -> nn.Sequential:
    """(..., D) -> (..., L), as a module: linear, norm, ReLU, dropout, linear"""
    return nn.Sequential(
        nn.Linear(width, width),
        nn.LayerNorm(width),
        nn.ReLU(),
        Dropout(dropout),
        nn.Linear(width, outputs),
    )
