"""One prediction per item: the "Transformer predictor" of the courses."""

from typing import Literal

from torch import Tensor, nn

from limelight.models.encoder import EncoderConfig, SequenceEncoder, output_network
from limelight.models.sizes import Sizes


class LabellerConfig(EncoderConfig):
    kind: Literal["labeller"] = "labeller"

    def build(self, sizes: Sizes) -> "Labeller":
        return Labeller(self, sizes)


class Labeller(nn.Module):
    """Input network, positions, encoder, output network."""

    def __init__(self, config: LabellerConfig, sizes: Sizes) -> None:
        super().__init__()
        self.encoder = SequenceEncoder(config, sizes)
        self.output = output_network(config.width, sizes.outputs, config.dropout)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) | (B, T, features), (B) -> (B, T, L)"""
        return self.output(self.encoder(inputs, lengths))
