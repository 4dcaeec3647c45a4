"""Tokens or vectors -> an encoded sequence: the first part of every sequence model."""

from collections.abc import Mapping
from typing import ClassVar

import torch
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
    embedding_norm: bool = Field(
        False, description="whether a layer norm follows the positions, before the first block, as in BERT"
    )
    segments: bool = Field(
        False,
        description="whether each item has a vector for its segment added, as in BERT; always for pairs",
    )
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
        self.segments: SegmentEmbedding | None = None
        if sizes.vocabulary and (config.segments or sizes.separator):
            self.segments = SegmentEmbedding(width, sizes.separator)
        epsilon = config.norm_epsilon or 1e-5
        self.norm = nn.LayerNorm(width, epsilon) if config.embedding_norm else nn.Identity()
        self.encoder = Encoder(config.depth, config.block_config)

    def embed(self, inputs: Tensor) -> Tensor:
        """(B, T) | (B, T, ids) | (B, T, features) -> (B, T, D)

        The input network, without positions. Of an item with several ids, the first is that of its word.
        """
        if not isinstance(self.input, nn.Embedding):
            return self.input(self.dropout(inputs))
        ids_BT = inputs[..., 0] if inputs.dim() == 3 else inputs
        x_BTD = self.input(ids_BT)
        if self._dropout_first:
            x_BTD = self.dropout(x_BTD)
        return x_BTD if self.segments is None else x_BTD + self.segments(ids_BT)

    def encode(self, embedded: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, D), (B) -> (B, T, D)

        Positions and encoder; the output is zero beyond the end of a sequence.
        """
        mask = None if lengths is None else padding_mask(lengths, embedded.shape[1])
        x_BTD = self.norm(self.positions(embedded))
        if not self._dropout_first:
            x_BTD = self.dropout(x_BTD)
        return self.encoder(x_BTD, mask, causal=self.causal)

    @property
    def _dropout_first(self) -> bool:
        """Whether dropout is that of the embeddings; with a norm it comes after the norm, as in BERT."""
        return isinstance(self.norm, nn.Identity) or not isinstance(self.input, nn.Embedding)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) | (B, T, features), (B) -> (B, T, D)

        `embed`, then `encode`.
        """
        return self.encode(self.embed(inputs), lengths)


class SegmentEmbedding(nn.Module):
    """One vector for the first of two texts and one for the second (Devlin et al. 2019)."""

    def __init__(self, width: int, separator: int) -> None:
        """`separator` is the token between the texts; 0: there is only one text."""
        super().__init__()
        self.separator = separator
        self.vectors = nn.Embedding(2, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)

        The separator belongs to the first text.
        """
        if not self.separator:
            return self.vectors(torch.zeros_like(inputs))
        at_BT = (inputs == self.separator).long()
        return self.vectors((at_BT.cumsum(1) - at_BT).clamp(max=1))


def output_network(width: int, outputs: int, dropout: float, kind: str = "norm-relu") -> nn.Sequential:
    """(..., D) -> (..., L), as a module: linear, norm and ReLU or an activation alone, dropout, linear"""
    activation: list[nn.Module] = [nn.Tanh() if kind == "tanh" else nn.ReLU()]
    if kind == "norm-relu":
        activation.insert(0, nn.LayerNorm(width))
    return nn.Sequential(nn.Linear(width, width), *activation, Dropout(dropout), nn.Linear(width, outputs))
