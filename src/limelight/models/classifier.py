"""One prediction per sequence: a class, yes or no, or a number."""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.models.encoder import EncoderConfig, SequenceEncoder, output_network
from limelight.models.linear_path import LinearPath
from limelight.models.sizes import Sizes
from limelight.nn import MultiHeadAttention, padding_mask

Pooling = Literal["mean", "max", "class-token", "attention", "first"]
POOLING = (
    "how the vectors of all items become one: their mean, their maximum, that of an added class token, "
    "attention with a learned query, or the vector of the first item"
)


class ClassifierConfig(EncoderConfig):
    """The settings of a classifier."""

    kind: Literal["classifier"] = Field("classifier", description="the kind of model")
    pooling: Pooling = Field("mean", description=POOLING)
    head: Literal["norm-relu", "tanh", "relu"] = Field(
        "norm-relu",
        description="what is between the two linear layers of the output network: a norm and a ReLU, tanh as "
        "in BERT, or a ReLU as in DistilBERT",
    )
    linear: float = Field(
        0.0,
        ge=0,
        le=1_000,
        description="factor of the linear path, which adds a score of each word and n-gram to the logits; "
        "0: no linear path",
    )
    unknown: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that a word or n-gram is treated as unknown in a training step",
    )

    @model_validator(mode="after")
    def _class_token_attends_to_all(self) -> Self:
        if self.causal and self.pooling in ("class-token", "first"):
            raise ValueError(
                f"pooling is {self.pooling!r}, which comes first; allowed with causal: mean, max, attention"
            )
        return self

    @property
    def summary(self) -> str:
        """The model in one line: "classifier: 1 layer, 1 head of width 32, post-norm, ..., mean pooling"."""
        words = [*self._encoder_words(), f"{self.pooling} pooling", *(["linear path"] * (self.linear > 0))]
        return f"{self.kind}: {', '.join(words)}"

    @property
    def attention_note(self) -> str:
        """The linear path is not visible in the attention maps."""
        if not self.linear:
            return ""
        return "the scores of words and n-grams decide a part of the answer, which the maps do not show"

    def build(self, sizes: Sizes) -> "Classifier":
        """A model with random weights."""
        return Classifier(self, sizes)


class MeanPooling(nn.Module):
    """The mean over the items of a sequence."""

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, D), (B) -> (B, D)"""
        # The output of an encoder is zero beyond the end of a sequence.
        return x.mean(1) if lengths is None else x.sum(1) / lengths.unsqueeze(1)


class MaxPooling(nn.Module):
    """The maximum over the items of a sequence, for each feature."""

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, D), (B) -> (B, D)"""
        if lengths is not None:
            x = x.masked_fill(~padding_mask(lengths, x.shape[1]).transpose(1, 2), -torch.inf)
        return x.amax(1)


class AttentionPooling(nn.Module):
    """One learned query attends to the whole sequence (Lee et al. 2019, section 3.2)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(1, 1, width))
        self.attention = MultiHeadAttention(width, heads, role="pooling")
        nn.init.normal_(self.query)

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, D), (B) -> (B, D)"""
        mask = None if lengths is None else padding_mask(lengths, x.shape[1])
        return self.attention(self.query.expand(x.shape[0], -1, -1), x, mask).squeeze(1)


class ClassToken(nn.Module):
    """A learned first item, which attends to all items; its output represents the sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(1, 1, width))
        nn.init.normal_(self.token)

    def prepend(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, 1 + T, D)

        Adds the class token before the first item.
        """
        return torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1)

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, 1 + T, D), (B) -> (B, D)"""
        return x[:, 0]


class FirstItem(nn.Module):
    """The output of the first item, which is a token such as [CLS]."""

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, D), (B) -> (B, D)"""
        return x[:, 0]


def build_pooling(kind: str, width: int, heads: int) -> nn.Module:
    """(B, T, D), (B) -> (B, D), as a module"""
    if kind == "class-token":
        return ClassToken(width)
    if kind == "attention":
        return AttentionPooling(width, heads)
    return {"mean": MeanPooling, "max": MaxPooling, "first": FirstItem}[kind]()


class Classifier(nn.Module):
    """Encoder, pooling, output network; optionally a linear path beside them.

    Of a pair of texts, each token has the vector of its segment added.
    """

    def __init__(self, config: ClassifierConfig, sizes: Sizes) -> None:
        super().__init__()
        token = config.pooling == "class-token"
        self.encoder = SequenceEncoder(config, sizes, extra=int(token))
        self.separator = sizes.separator
        self.pooling = build_pooling(config.pooling, config.width, config.heads)
        self.output = output_network(config.width, sizes.outputs, config.dropout, config.head)
        if sizes.features and (config.linear or config.unknown):
            raise wrong("model.linear or model.unknown", "set", "0 for both if the inputs are vectors")
        self.unknown = config.unknown
        self.linear: LinearPath | None = None
        if config.linear:
            self.linear = LinearPath(sizes.ngrams or sizes.vocabulary, sizes.outputs, config.linear)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) | (B, T, ids) | (B, T, features), (B) -> (B, L)

        The logits of every sequence; `lengths` are those of the sequences without padding.
        """
        known = 1.0
        if self.training and self.unknown:
            known = 1 - self.unknown
            kept = torch.rand(inputs.shape, device=inputs.device) < known
            if self.separator:
                kept |= inputs == self.separator
            inputs = inputs * kept
        logits_BL = self._transformer(inputs, lengths)
        # What remains of the linear path is scaled as in dropout: it is divided by the root of its number.
        return logits_BL if self.linear is None else logits_BL + self.linear(inputs, lengths) / known**0.5

    def _transformer(self, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T) | (B, T, ids) | (B, T, features), (B) -> (B, L)"""
        x_BTD = self.encoder.embed(inputs)
        if isinstance(self.pooling, ClassToken):
            x_BTD = self.pooling.prepend(x_BTD)
            lengths = None if lengths is None else lengths + 1
        return self.output(self.pooling(self.encoder.encode(x_BTD, lengths), lengths))
