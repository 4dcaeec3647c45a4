"""Encoder and decoder: a sequence of tokens into another one."""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.models.blocks import BlocksConfig, positions
from limelight.models.sizes import Sizes
from limelight.nn import (
    Decoder,
    DecoderCache,
    Dropout,
    Encoder,
    LeanCache,
    LeanDecoder,
    Packing,
    padding_mask,
)


class TransformerConfig(BlocksConfig):
    kind: Literal["transformer"] = "transformer"
    encoder_depth: int = Field(2, ge=1, le=1_000)
    decoder_depth: int = Field(2, ge=1, le=1_000)
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    # What shares one matrix: nothing, the decoder's embedding and the output layer, or the encoder's too.
    tied: Literal["nothing", "output", "all"] = "nothing"

    def build(self, sizes: Sizes) -> "Transformer":
        if self.tied == "all" and not sizes.shared:
            raise wrong("model.tied", "'all'", "'output' or 'nothing', unless task.vocabulary.shared is true")
        return Transformer(self, sizes)


class Transformer(nn.Module):
    """Embeddings × √D, positions, encoder, decoder, output layer (Vaswani et al. 2017)."""

    def __init__(self, config: TransformerConfig, sizes: Sizes) -> None:
        super().__init__()
        width = config.width
        self.longest: int | None = (
            sizes.longest if config.positions == "learned" else None
        )  # None: any length
        self.target_embedding = _embedding(sizes.outputs, width)
        self.source_embedding = (
            self.target_embedding if config.tied == "all" else _embedding(sizes.vocabulary, width)
        )
        self.scale = math.sqrt(width)
        self.source_positions = positions(config.positions, width, sizes.longest)
        self.target_positions = positions(config.positions, width, sizes.longest)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config.encoder_depth, **config.of_blocks)
        self.decoder = Decoder(config.decoder_depth, **config.of_blocks)
        self.output = nn.Linear(width, sizes.outputs, bias=config.tied == "nothing")
        if config.tied != "nothing":
            self.output.weight = self.target_embedding.weight

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        lengths: Tensor | None = None,
        target_lengths: Tensor | None = None,
        *,
        logits: bool = True,
    ) -> Tensor:
        """(B, S), (B, T), (B), (B) -> (N, V)

        What may follow each real token of the target; the tokens of one sentence after those of another.
        Without `logits`, (N, D): what `output` would make them of.
        """
        memory_packing, packing = _packing(source, lengths), _packing(target, target_lengths)
        memory_ND = self._encode(source, memory_packing)
        x_ND = self._embed(self.target_embedding, self.target_positions, target, packing)
        x_ND = self.decoder(x_ND, memory_ND, packing=packing, memory_packing=memory_packing)
        return self.output(x_ND) if logits else x_ND

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> DecoderCache:
        """(B, S), (B) -> a cache with room for `capacity` target positions"""
        return self.decoder.start(*self.read(source, lengths), capacity=capacity)

    def read(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(B, S), (B) -> (B, S, D), (B, 1, S)

        The encoded source, and which of it is real.
        """
        packing = _packing(source, lengths)
        memory_BSD = packing.pad(self._encode(source, packing))
        return memory_BSD, None if lengths is None else packing.mask

    def step(self, tokens: Tensor, state: DecoderCache) -> Tensor:
        """(B) -> (B, V)

        What may follow the next token of each target; the state then holds that token too.
        """
        x_B1D = self.target_embedding(tokens).unsqueeze(1) * self.scale
        x_B1D = self.dropout(self.target_positions(x_B1D, state.length))
        return self.output(self.decoder.step(x_B1D, state).squeeze(1))

    def writer(self) -> "TransformerWriter":
        """The same for writing: as the weights are now, and faster."""
        return TransformerWriter(self)

    def _encode(self, source: Tensor, packing: Packing) -> Tensor:
        """(B, S) -> (N, D)"""
        x_ND = self._embed(self.source_embedding, self.source_positions, source, packing)
        return self.encoder(x_ND, packing=packing)

    def _embed(
        self, embedding: nn.Embedding, positions: nn.Module, tokens: Tensor, packing: Packing
    ) -> Tensor:
        """(B, T) -> (N, D)"""
        return self.dropout(packing.take(positions(embedding(tokens) * self.scale)))


class TransformerWriter:
    """`start` and `step` of a Transformer whose weights stay as they are."""

    @torch.no_grad()
    def __init__(self, model: Transformer) -> None:
        self.model, self.longest = model, model.longest
        self.decoder = LeanDecoder(model.decoder)
        self.embedding, self.matrix = model.target_embedding.weight, model.output.weight.t().contiguous()
        self.bias = model.output.bias

    @torch.no_grad()
    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> LeanCache:
        """(B, S), (B) -> a cache with room for `capacity` target positions"""
        return self.decoder.start(*self.model.read(source, lengths), capacity=capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: LeanCache) -> Tensor:
        """(B) -> (B, V)"""
        x_B1D = (self.embedding.index_select(0, tokens) * self.model.scale).unsqueeze(1)
        x_BD = self.model.target_positions(x_B1D, state.length).squeeze(1)
        x_BD = self.decoder.step(x_BD, state)
        return torch.mm(x_BD, self.matrix) if self.bias is None else torch.addmm(self.bias, x_BD, self.matrix)


def _packing(tokens: Tensor, lengths: Tensor | None) -> Packing:
    """Of (B, T) tokens; without lengths, all are real."""
    if lengths is None:
        lengths = torch.full(tokens.shape[:1], tokens.shape[1], device=tokens.device)
    return Packing(padding_mask(lengths, tokens.shape[1]))


def _embedding(size: int, width: int) -> nn.Embedding:
    embedding = nn.Embedding(size, width)
    nn.init.normal_(embedding.weight, std=width**-0.5)  # × √D, they are as large as positions
    return embedding
