"""One prediction per item of a sequence."""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from limelight.models.encoder import EncoderConfig, SequenceEncoder, output_network
from limelight.models.sizes import Sizes


class LabellerConfig(EncoderConfig):
    """The settings of a labeller."""

    kind: Literal["labeller"] = Field("labeller", description="the kind of model")

    @property
    def summary(self) -> str:
        """The model in one line: "labeller: 1 layer, 1 head of width 32, pre-norm, sinusoidal positions"."""
        return f"{self.kind}: {', '.join(self._encoder_words())}"

    def build(self, sizes: Sizes) -> "Labeller":
        """A model with random weights."""
        return Labeller(self, sizes)


class Labeller(nn.Module):
    """Input network, positions, encoder, output network."""

    def __init__(self, config: LabellerConfig, sizes: Sizes) -> None:
        super().__init__()
        self.encoder = SequenceEncoder(config, sizes)
        self.output = output_network(config.width, sizes.outputs, config.dropout)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) | (B, T, features), (B) -> (B, T, L)

        The logits of every item; `lengths` are those of the sequences without padding.
        """
        return self.output(self.encoder(inputs, lengths))
