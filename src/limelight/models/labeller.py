"""One prediction per item of a sequence."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.models.encoder import EncoderConfig, SequenceEncoder, output_network
from limelight.models.sizes import Sizes


class LabellerConfig(EncoderConfig):
    """The settings of a labeller."""

    kind: Literal["labeller"] = Field("labeller", description="the kind of model")
    unknown: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that a token or an affix is treated as unknown in a training step",
    )

    @property
    def summary(self) -> str:
        """The model in one line: "labeller: 1 layer, 1 head of width 32, pre-norm, sinusoidal positions"."""
        return f"{self.kind}: {', '.join(self._encoder_words())}"

    def build(self, sizes: Sizes) -> "Labeller":
        """A model with random weights."""
        return Labeller(self, sizes)


class AffixEmbedding(nn.Module):
    """The sum of the vectors of the affixes of each token; id 0, which is no affix, adds nothing."""

    def __init__(self, first: int, total: int, width: int) -> None:
        """The ids of affixes are those from `first` to below `total`."""
        super().__init__()
        self.first = first
        self.vectors = nn.Embedding(1 + total - first, width, padding_idx=0)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T, ids) -> (B, T, D)"""
        return self.vectors((ids - (self.first - 1)).clamp(min=0)).sum(2)


class Labeller(nn.Module):
    """Input network, positions, encoder, output network; affixes are added to the input network."""

    def __init__(self, config: LabellerConfig, sizes: Sizes) -> None:
        super().__init__()
        self.encoder = SequenceEncoder(config, sizes)
        self.affixes = AffixEmbedding(sizes.vocabulary, sizes.ngrams, config.width) if sizes.ngrams else None
        self.output = output_network(config.width, sizes.outputs, config.dropout)
        if sizes.features and config.unknown:
            raise wrong("model.unknown", config.unknown, "0 if the inputs are vectors")
        self.unknown = config.unknown

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) | (B, T, ids) | (B, T, features), (B) -> (B, T, L)

        The logits of every item; `lengths` are those of the sequences without padding.
        """
        if self.training and self.unknown:
            inputs = inputs * (torch.rand(inputs.shape, device=inputs.device) >= self.unknown)
        x_BTD = self.encoder.embed(inputs)
        if self.affixes is not None:
            x_BTD = x_BTD + self.affixes(inputs[..., 1:])
        return self.output(self.encoder.encode(x_BTD, lengths))
