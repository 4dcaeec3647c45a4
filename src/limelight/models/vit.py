"""A Vision Transformer: an image as a sequence of patches."""

from collections.abc import Iterable
from typing import Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.models.blocks import ACTIVATION, NORM, Activation, BlockSettings, Norm, count
from limelight.models.sizes import Sizes
from limelight.nn import (
    Dropout,
    Encoder,
    EncoderBlock,
    GridPositions,
    MultiHeadAttention,
    PatchEmbedding,
)


class ViTConfig(BlockSettings):
    """The settings of a Vision Transformer."""

    kind: Literal["vit"] = Field("vit", description="the kind of model")
    patch: int = Field(4, ge=1, le=1_000, description="side of a square patch in pixels")
    depth: int = Field(6, ge=1, le=1_000, description="number of encoder blocks")
    activation: Activation = Field("gelu", description=ACTIVATION)
    norm: Norm = Field("pre", description=NORM)
    positions: Literal["learned", "sinusoidal"] = Field(
        "learned", description="positional encoding: learned or fixed sinusoids"
    )
    pooling: Literal["class-token", "mean"] = Field(
        "class-token",
        description="the vector that is classified: that of the class token, or the mean of all patches",
    )
    distillation: Literal["none", "token", "output"] = Field(
        "none",
        description="a second learned token after the class token, as in DeiT: none; token: one whose output "
        "is not read; output: with its own output layer, and the mean of both logits",
    )
    init: Literal["xavier", "mimetic"] = Field(
        "xavier",
        description="initialisation of attention: Xavier, or mimetic, which imitates trained vision models",
    )
    patch_dropout: float = Field(
        0.0, ge=0, lt=1, description="share of the patches of each image that is dropped in training"
    )
    stochastic_depth: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the examples that skip the last block in training; "
        "it decreases linearly to 0 in the first block",
    )

    @model_validator(mode="after")
    def _distillation_needs_a_class_token(self) -> Self:
        if self.distillation != "none" and self.pooling != "class-token":
            raise ValueError(f"pooling is {self.pooling!r}; allowed with distillation: 'class-token'")
        return self

    @model_validator(mode="after")
    def _mimetic_needs_a_key_per_query(self) -> Self:
        if self.init == "mimetic" and self.key_value_heads not in (None, self.heads):
            given = self.key_value_heads
            raise ValueError(f"key_value_heads is {given}; allowed with init='mimetic': heads={self.heads}")
        return self

    @property
    def summary(self) -> str:
        """The model in one line: "vit: 6 layers, 4 heads of width 16, pre-norm, learned positions, ..."."""
        parts = [count(self.depth, "layer"), *self._block_words(self.positions), f"{self.pooling} pooling"]
        return f"{self.kind}: {', '.join(parts)}"

    def build(self, sizes: Sizes) -> "ViT":
        """A model with random weights."""
        _, rows, columns = sizes.image
        if rows % self.patch or columns % self.patch:
            raise wrong("model.patch", self.patch, f"a divisor of the images' {rows} × {columns} pixels")
        return ViT(self, sizes)


@torch.no_grad()
def mimetic_initialisation(attention: MultiHeadAttention) -> None:
    """Initialises weights that resemble those of trained vision models (Trockman and Kolter 2023).

    W_q·W_k of each head is near the identity, so that tokens attend to similar tokens; W_v·W_o is near the
    negative identity. Training need not learn these patterns first.
    """
    width, size = attention.width, attention.width // attention.heads
    identity = torch.eye(width)
    for query_KD, key_KD in zip(
        attention.query.weight.split(size), attention.key.weight.split(size), strict=True
    ):
        left_DK, right_KD = _factors(0.7 * torch.randn(width, width) / width**0.5 + 0.7 * identity, size)
        query_KD.copy_(left_DK.T)
        key_KD.copy_(right_KD)
    left_DD, right_DD = _factors(0.4 * torch.randn(width, width) / width**0.5 - 0.4 * identity, width)
    attention.value.weight.copy_(left_DD.T)
    attention.output.weight.copy_(right_DD.T)


def _factors(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """(D, D) -> (D, K), (K, D)

    Two factors with the same singular values; their product is the best approximation of rank K.
    """
    left_DD, values_D, right_DD = torch.linalg.svd(matrix)
    root_K = values_D[:rank].sqrt()
    return left_DD[:, :rank] * root_K, root_K.unsqueeze(1) * right_DD[:rank]


class ViT(nn.Module):
    """Patches, class token, positions, encoder, output layer (Dosovitskiy et al. 2021)."""

    def __init__(self, config: ViTConfig, sizes: Sizes) -> None:
        super().__init__()
        channels, rows, columns = sizes.image
        width, self.patch, self.patch_dropout = config.width, config.patch, config.patch_dropout
        self.patches = PatchEmbedding(channels, config.patch, width)
        self.positions = GridPositions(
            width, rows // config.patch, columns // config.patch, learned=config.positions == "learned"
        )
        self.class_token = (
            nn.Parameter(torch.randn(1, 1, width) * 0.02) if config.pooling == "class-token" else None
        )
        self.distillation_token: nn.Parameter | None = None
        if config.distillation != "none":
            self.distillation_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config.depth, config.block_config)
        for number, block in enumerate(self._blocks):
            share = config.stochastic_depth * number / max(1, config.depth - 1)
            block.self_residual.skip = block.feedforward_residual.skip = share
            if config.init == "mimetic":
                mimetic_initialisation(block.self_attention)
        self.output = nn.Linear(width, sizes.outputs)
        self.distillation_output: nn.Linear | None = None
        if config.distillation == "output":
            self.distillation_output = nn.Linear(width, sizes.outputs)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, L)

        The logits of every image.
        """
        rows, columns = (size // self.patch for size in images.shape[2:])
        x_BPD = self.positions(self.patches(images), rows, columns)
        if self.training and self.patch_dropout:
            x_BPD = self._drop_patches(x_BPD)
        if self.class_token is None:
            return self.output(self.encoder(self.dropout(x_BPD)).mean(1))
        x_BTD = torch.cat([token.expand(x_BPD.shape[0], -1, -1) for token in self.tokens] + [x_BPD], 1)
        x_BTD = self.encoder(self.dropout(x_BTD), first=self._first)
        logits_BL = self.output(x_BTD[:, 0])
        if self.distillation_output is None:
            return logits_BL
        return (logits_BL + self.distillation_output(x_BTD[:, 1])) / 2

    @property
    def tokens(self) -> list[nn.Parameter]:
        """The learned tokens before the patches."""
        return [token for token in (self.class_token, self.distillation_token) if token is not None]

    @property
    def _blocks(self) -> Iterable[EncoderBlock]:
        return cast(Iterable[EncoderBlock], self.encoder.blocks)

    @property
    def _first(self) -> int | None:
        """The positions that the last block computes: the learned tokens, but all if somebody watches."""
        watched = any(block.self_attention.weights.watched for block in self._blocks)
        return None if watched else len(self.tokens)

    def _drop_patches(self, x: Tensor) -> Tensor:
        """(B, P, D) -> (B, p, D)

        A random subset of the patches of each image, of the same size for all images.
        """
        count = max(1, round(x.shape[1] * (1 - self.patch_dropout)))
        kept_Bp = torch.rand(x.shape[:2], device=x.device).topk(count).indices
        return x.gather(1, kept_Bp.unsqueeze(-1).expand(-1, -1, x.shape[2]))
