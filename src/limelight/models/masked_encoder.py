"""A masked language model: each token, given those around it."""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from limelight.models.blocks import (
    ACTIVATION,
    NORM,
    POSITIONS,
    Activation,
    Norm,
    Positions,
)
from limelight.models.encoder import EncoderConfig, SequenceEncoder
from limelight.models.sizes import Sizes


class MaskedEncoderConfig(EncoderConfig):
    """The settings of a masked language model."""

    kind: Literal["masked-encoder"] = Field("masked-encoder", description="the kind of model")
    depth: int = Field(2, ge=1, le=1_000, description="number of encoder blocks")
    activation: Activation = Field("gelu", description=ACTIVATION)
    norm: Norm = Field("pre", description=NORM)
    positions: Positions = Field("rotary", description=POSITIONS)

    @property
    def summary(self) -> str:
        """The model in one line: "masked-encoder: 2 layers, 4 heads of width 32, pre-norm, ..."."""
        return f"{self.kind}: {', '.join([*self._encoder_words(), 'tied output'])}"

    def build(self, sizes: Sizes) -> "MaskedEncoder":
        """A model with random weights."""
        return MaskedEncoder(self, sizes)


def activation(name: str) -> nn.Module:
    """An activation function, as a module."""
    made = {"relu": nn.ReLU(), "gelu": nn.GELU(), "gelu-tanh": nn.GELU("tanh"), "silu": nn.SiLU()}
    return made[name]


class MaskedEncoder(nn.Module):
    """Embedding, positions, encoder, and an output network whose last layer has the weights of the embedding
    (Devlin et al. 2019)."""

    def __init__(self, config: MaskedEncoderConfig, sizes: Sizes) -> None:
        super().__init__()
        width = config.width
        self.encoder = SequenceEncoder(config, sizes)
        norm = nn.LayerNorm(width, config.norm_epsilon or 1e-5)
        self.transform = nn.Sequential(nn.Linear(width, width), activation(config.activation), norm)
        self.output = nn.Linear(width, sizes.outputs)
        embedding = self.encoder.input
        nn.init.normal_(embedding.weight, std=0.02)  # type: ignore[arg-type]
        self.output.weight = embedding.weight  # type: ignore[assignment]
        nn.init.zeros_(self.output.bias)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, chosen: Tensor | None = None) -> Tensor:
        """(B, T), (B), (N) -> (B, T, V) | (N, D)

        The logits of every token. With the indices `chosen` into the B · T tokens, only the inputs of the
        output layer at these.
        """
        x_BTD = self.encoder(tokens, lengths)
        if chosen is None:
            return self.output(self.transform(x_BTD))
        return self.transform(x_BTD.flatten(0, 1).index_select(0, chosen))
