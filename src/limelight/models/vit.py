"""A Vision Transformer: an image as a sequence of patches."""

from collections.abc import Iterable
from typing import Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.models.blocks import BlocksConfig
from limelight.models.sizes import Sizes
from limelight.nn import (
    Dropout,
    Encoder,
    EncoderBlock,
    GridPositions,
    MultiHeadAttention,
    PatchEmbedding,
)


class ViTConfig(BlocksConfig):
    kind: Literal["vit"] = "vit"
    patch: int = Field(4, ge=1, le=1_000)  # pixels a side
    depth: int = Field(6, ge=1, le=1_000)
    activation: Literal["relu", "gelu"] = "gelu"
    norm: Literal["post", "pre"] = "pre"
    positions: Literal["learned", "sinusoidal"] = "learned"
    pooling: Literal["class-token", "mean"] = "class-token"
    init: Literal["xavier", "mimetic"] = "xavier"  # of attention; mimetic: see `begin_mimetic`
    patch_dropout: float = Field(0.0, ge=0, lt=1)  # the share of the patches that training does not see
    stochastic_depth: float = Field(0.0, ge=0, lt=1)  # of the last block; less before it, none in the first

    def build(self, sizes: Sizes) -> "ViT":
        _, rows, columns = sizes.image
        if rows % self.patch or columns % self.patch:
            raise wrong("model.patch", self.patch, f"a divisor of the images' {rows} × {columns} pixels")
        return ViT(self, sizes)


@torch.no_grad()
def begin_mimetic(attention: MultiHeadAttention) -> None:
    """Weights as trained vision models tend to have them (Trockman and Kolter 2023).

    W_q·W_k of each head is near the identity, so that tokens look at those like them, and W_v·W_o near its
    negative: what such models learn first, they need not learn.
    """
    width, size = attention.width, attention.width // attention.heads
    near = torch.eye(width)
    for query_KD, key_KD in zip(
        attention.query.weight.split(size), attention.key.weight.split(size), strict=True
    ):
        left_DK, right_KD = _factors(0.7 * torch.randn(width, width) / width**0.5 + 0.7 * near, size)
        query_KD.copy_(left_DK.T)
        key_KD.copy_(right_KD)
    left_DD, right_DD = _factors(0.4 * torch.randn(width, width) / width**0.5 - 0.4 * near, width)
    attention.value.weight.copy_(left_DD.T)
    attention.output.weight.copy_(right_DD.T)


def _factors(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """(D, D) -> (D, R), (R, D), whose product is the nearest of that rank, both equally large"""
    left, sizes, right = torch.linalg.svd(matrix)
    root_R = sizes[:rank].sqrt()
    return left[:, :rank] * root_R, root_R.unsqueeze(1) * right[:rank]


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
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config.depth, **config.of_blocks)
        for number, block in enumerate(self._blocks):
            share = config.stochastic_depth * number / max(1, config.depth - 1)
            block.self_residual.skip = block.feedforward_residual.skip = share
            if config.init == "mimetic":
                begin_mimetic(block.self_attention)
        self.output = nn.Linear(width, sizes.outputs)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, L)"""
        rows, columns = (size // self.patch for size in images.shape[2:])
        x_BPD = self.positions(self.patches(images), rows, columns)
        if self.training and self.patch_dropout:
            x_BPD = self._some(x_BPD)
        if self.class_token is None:
            return self.output(self.encoder(self.dropout(x_BPD)).mean(1))
        x_BTD = torch.cat((self.class_token.expand(len(x_BPD), -1, -1), x_BPD), 1)
        return self.output(self.encoder(self.dropout(x_BTD), first=self._read)[:, 0])

    @property
    def _blocks(self) -> Iterable[EncoderBlock]:
        return cast(Iterable[EncoderBlock], self.encoder.blocks)

    @property
    def _read(self) -> int | None:
        """The output layer reads the class token alone; who watches wants to see the others look, too."""
        watched = any(block.self_attention.weights.watched for block in self._blocks)
        return None if watched else 1

    def _some(self, x: Tensor) -> Tensor:
        """(B, P, D) -> (B, p, D)

        Of each image other patches, as many of all.
        """
        count = max(1, round(x.shape[1] * (1 - self.patch_dropout)))
        kept_Bp = torch.rand(x.shape[:2], device=x.device).topk(count).indices
        return x.gather(1, kept_Bp.unsqueeze(-1).expand(-1, -1, x.shape[2]))
