"""A vector for a whole text: texts with a similar meaning have similar vectors."""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limelight.models.classifier import POOLING, ClassToken, Pooling, build_pooling
from limelight.models.encoder import EncoderConfig, SequenceEncoder
from limelight.models.sizes import Sizes


class EmbedderConfig(EncoderConfig):
    """The settings of an embedder."""

    kind: Literal["embedder"] = Field("embedder", description="the kind of model")
    pooling: Pooling = Field("mean", description=POOLING)
    unit: bool = Field(True, description="whether vectors are scaled to length 1")

    @property
    def summary(self) -> str:
        """The model in one line: "embedder: 6 layers, 12 heads of width 32, post-norm, ..., mean pooling"."""
        return f"{self.kind}: {', '.join([*self._encoder_words(), f'{self.pooling} pooling'])}"

    def build(self, sizes: Sizes) -> "Embedder":
        """A model with random weights."""
        return Embedder(self, sizes)


class Embedder(nn.Module):
    """Encoder and pooling (Reimers and Gurevych 2019)."""

    def __init__(self, config: EmbedderConfig, sizes: Sizes) -> None:
        super().__init__()
        self.encoder = SequenceEncoder(config, sizes, extra=int(config.pooling == "class-token"))
        self.pooling = build_pooling(config.pooling, config.width, config.heads)
        self.unit = config.unit

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T), (B) -> (B, D)

        The vector of every sequence; `lengths` are those of the sequences without padding.
        """
        x_BTD = self.encoder.embed(inputs)
        if isinstance(self.pooling, ClassToken):
            x_BTD = self.pooling.prepend(x_BTD)
            lengths = None if lengths is None else lengths + 1
        x_BD = self.pooling(self.encoder.encode(x_BTD, lengths), lengths)
        return normalize(x_BD, dim=-1) if self.unit else x_BD
