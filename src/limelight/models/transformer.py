"""Encoder and decoder: from one sequence of tokens to another."""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.models.blocks import SequenceSettings, build_positions
from limelight.models.sizes import Sizes
from limelight.nn import (
    Decoder,
    DecoderCache,
    Dropout,
    Encoder,
    FastCache,
    FastDecoder,
    Packing,
    padding_mask,
)
from limelight.nn.kernels.linear import times


class TransformerConfig(SequenceSettings):
    """The settings of an encoder–decoder Transformer."""

    kind: Literal["transformer"] = Field("transformer", description="the kind of model")
    encoder_depth: int = Field(2, ge=1, le=1_000, description="number of encoder blocks")
    decoder_depth: int = Field(2, ge=1, le=1_000, description="number of decoder blocks")
    output_bias: bool | None = Field(
        None, description="whether the output layer has a bias; default: if its matrix is not shared"
    )
    tied: Literal["nothing", "output", "all"] = Field(
        "nothing",
        description="layers that share one matrix: nothing; output: target embedding and output layer; "
        "all: source embedding, too, which needs a shared vocabulary",
    )

    @property
    def summary(self) -> str:
        """The model in one line: "transformer: 2 + 2 layers, 4 heads of width 16, post-norm, ..."."""
        layers = f"{self.encoder_depth} + {self.decoder_depth} layers"
        tied = {"nothing": [], "output": ["tied output"], "all": ["tied embeddings"]}[self.tied]
        return f"{self.kind}: {', '.join([layers, *self._block_words(self.positions), *tied])}"

    def build(self, sizes: Sizes) -> "Transformer":
        """A model with random weights."""
        if self.tied == "all" and not sizes.shared:
            raise wrong("model.tied", "'all'", "'output' or 'nothing', unless task.vocabulary.shared is true")
        return Transformer(self, sizes)


class Transformer(nn.Module):
    """Embeddings × √D, positions, encoder, decoder, output layer (Vaswani et al. 2017)."""

    def __init__(self, config: TransformerConfig, sizes: Sizes) -> None:
        super().__init__()
        width = config.width
        # The maximum length of a sequence; None: any length.
        self.longest: int | None = sizes.longest if config.positions == "learned" else None
        self.target_embedding = _embedding(sizes.outputs, width)
        self.source_embedding = (
            self.target_embedding if config.tied == "all" else _embedding(sizes.vocabulary, width)
        )
        self.scale = math.sqrt(width)
        self.source_positions = build_positions(config.positions, width, sizes.longest)
        self.target_positions = build_positions(config.positions, width, sizes.longest)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config.encoder_depth, config.block_config)
        self.decoder = Decoder(config.decoder_depth, config.block_config)
        bias = config.tied == "nothing" if config.output_bias is None else config.output_bias
        self.output = nn.Linear(width, sizes.outputs, bias=bias)
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

        The logits of the token after each real target token, sentence by sentence. Without `logits`, the
        (N, D) inputs of the output layer.
        """
        memory_packing, packing = _packing(source, lengths), _packing(target, target_lengths)
        memory_ND = self._encode_packed(source, memory_packing)
        x_ND = self._embed(self.target_embedding, self.target_positions, target, packing)
        x_ND = self.decoder(x_ND, memory_ND, packing=packing, memory_packing=memory_packing)
        return self.output(x_ND) if logits else x_ND

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> DecoderCache:
        """(B, S), (B) -> a cache for `capacity` target positions

        Encodes the source.
        """
        return self.decoder.start(*self.encode(source, lengths), capacity=capacity)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(B, S), (B) -> (B, S, D), (B, 1, S)

        The encoder output and its padding mask; None without lengths.
        """
        packing = _packing(source, lengths)
        memory_BSD = packing.pad(self._encode_packed(source, packing))
        return memory_BSD, None if lengths is None else packing.mask

    def step(self, tokens: Tensor, state: DecoderCache) -> Tensor:
        """(B) -> (B, V)

        The logits of the token after `tokens`, which are added to the state.
        """
        x_B1D = self.target_embedding(tokens).unsqueeze(1) * self.scale
        x_B1D = self.dropout(_place(x_B1D, self.target_positions, state.length))
        return self.output(self.decoder.step(x_B1D, state).squeeze(1))

    def generator(self) -> "TransformerGenerator":
        """A faster `start` and `step` for generation, with a copy of the present weights."""
        return TransformerGenerator(self)

    def _encode_packed(self, source: Tensor, packing: Packing) -> Tensor:
        """(B, S) -> (N, D)"""
        x_ND = self._embed(self.source_embedding, self.source_positions, source, packing)
        return self.encoder(x_ND, packing=packing)

    def _embed(
        self, embedding: nn.Embedding, positions: nn.Module, tokens: Tensor, packing: Packing
    ) -> Tensor:
        """(B, T) -> (N, D)"""
        return self.dropout(packing.take(positions(embedding(tokens) * self.scale)))


class TransformerGenerator:
    """`start` and `step` of a Transformer for generation; its weights must not change meanwhile."""

    @torch.no_grad()
    def __init__(self, model: Transformer) -> None:
        self.model, self.longest = model, model.longest
        self.decoder = FastDecoder(model.decoder)
        self.embedding, self.matrix = model.target_embedding.weight, model.output.weight.t().contiguous()
        self.bias = model.output.bias

    @torch.no_grad()
    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> FastCache:
        """(B, S), (B) -> a cache for `capacity` target positions

        Encodes the source.
        """
        return self.decoder.start(*self.model.encode(source, lengths), capacity=capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: FastCache) -> Tensor:
        """(B) -> (B, V)

        The logits of the token after `tokens`, which are added to the state.
        """
        x_B1D = (self.embedding.index_select(0, tokens) * self.model.scale).unsqueeze(1)
        x_BD = _place(x_B1D, self.model.target_positions, state.length).squeeze(1)
        x_BD = self.decoder.step(x_BD, state)
        return times(x_BD, self.matrix, self.bias)


def _place(x: Tensor, positions: nn.Module, start: int) -> Tensor:
    """(B, 1, D) -> (B, 1, D)"""
    return x if isinstance(positions, nn.Identity) else positions(x, start)


def _packing(tokens: Tensor, lengths: Tensor | None) -> Packing:
    """The packing of (B, T) tokens; without lengths, all tokens are real."""
    if lengths is None:
        lengths = torch.full(tokens.shape[:1], tokens.shape[1], device=tokens.device)
    return Packing(padding_mask(lengths, tokens.shape[1]))


def _embedding(size: int, width: int) -> nn.Embedding:
    embedding = nn.Embedding(size, width)
    nn.init.normal_(embedding.weight, std=width**-0.5)  # multiplied by √D, their variance is 1
    return embedding
