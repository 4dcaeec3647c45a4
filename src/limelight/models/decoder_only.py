"""A decoder-only language model: the next token, given those before it."""

import math
from collections.abc import Mapping
from copy import copy
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.models.blocks import (
    ACTIVATION,
    NORM,
    POSITIONS,
    Activation,
    Norm,
    Positions,
    SequenceSettings,
    build_positions,
    count,
)
from limelight.models.sizes import Sizes
from limelight.nn import CausalCache, DecoderOnly, Dropout, FastCache, FastDecoderOnly
from limelight.nn.kernels.fast_parts import FastLinear
from limelight.nn.kernels.linear import SUMS_ROWS, Linear, is_plain

WORTH_DRAFTS = 2**22  # weights, from which on steps with eight bits are clearly faster


class DecoderOnlyConfig(SequenceSettings):
    """The settings of a decoder-only Transformer."""

    parts: ClassVar[Mapping[str, str]] = {
        "embedding": "embedding",
        "positions": "positions",
        "stack": "decoder",
    }
    causal: ClassVar[bool] = True  # a setting of models with an encoder

    kind: Literal["decoder-only"] = Field("decoder-only", description="the kind of model")
    depth: int = Field(4, ge=1, le=1_000, description="number of blocks")
    activation: Activation = Field("gelu", description=ACTIVATION)
    norm: Norm = Field("pre", description=NORM)
    positions: Positions = Field("rotary", description=POSITIONS)
    tied: bool = Field(True, description="whether embedding and output layer share one matrix")

    @property
    def summary(self) -> str:
        """The model in one line: "decoder-only: 4 layers, 4 heads of width 32, pre-norm, ..."."""
        tied = ["tied output"] * self.tied
        words = [count(self.depth, "layer"), *self._block_words(self.positions), *tied]
        return f"{self.kind}: {', '.join(words)}"

    def build(self, sizes: Sizes) -> "LanguageModel":
        """A model with random weights."""
        return LanguageModel(self, sizes)


class LanguageModel(nn.Module):
    """Embedding, positions, decoder-only stack, output layer (Radford et al. 2019)."""

    def __init__(self, config: DecoderOnlyConfig, sizes: Sizes) -> None:
        super().__init__()
        width = config.width
        # The maximum length of a sequence; None: any length.
        self.longest: int | None = sizes.longest if config.positions == "learned" else None
        self.embedding = nn.Embedding(sizes.vocabulary, width)
        self.positions = build_positions(config.positions, width, sizes.longest)
        self.dropout = Dropout(config.dropout)
        self.decoder = DecoderOnly(config.depth, config.block_config)
        self.output = Linear(width, sizes.vocabulary, bias=False)
        if config.tied:
            self.output.weight = self.embedding.weight
        self._initialise(config.depth)

    @torch.no_grad()
    def _initialise(self, depth: int) -> None:
        """Small weights, as in GPT-2; smaller ones where 2 · depth outputs are added to the residual path."""
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.output.weight, std=0.02)
        for name, parameter in self.decoder.named_parameters():
            if name.endswith(("output.weight", "contract.weight")):
                parameter.div_(math.sqrt(2 * depth))

    def forward(self, tokens: Tensor, mask: Tensor | None = None, *, logits: bool = True) -> Tensor:
        """(B, T), (B|1, T|1, T) -> (B, T, V)

        The logits of the token after each token. Without `logits`, the (B, T, D) inputs of the output layer.
        """
        x_BTD = self.decoder(self._embed(tokens), mask)
        return self.output(x_BTD) if logits else x_BTD

    def start(self, tokens: Tensor, *, capacity: int) -> tuple[Tensor, CausalCache]:
        """(B, T) -> (B, T, V), and a cache for `capacity` positions, which contains the first T"""
        cache = self.decoder.start(capacity=capacity)
        return self.output(self.decoder.step(self._embed(tokens), cache)), cache

    def step(self, tokens: Tensor, cache: CausalCache) -> Tensor:
        """(B) -> (B, V)

        The logits of the token after `tokens`, which are added to the cache.
        """
        x_B1D = self._embed(tokens.unsqueeze(1), cache.length)
        return self.output(self.decoder.step(x_B1D, cache).squeeze(1))

    def generator(self) -> "LanguageGenerator":
        """A faster `start` and `step` for generation, with a copy of the present weights."""
        return LanguageGenerator(self)

    def _embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """(B, T) -> (B, T, D)"""
        x_BTD = self.embedding(tokens)
        if not isinstance(self.positions, nn.Identity):
            x_BTD = self.positions(x_BTD, start)
        return self.dropout(x_BTD)


class LanguageGenerator:
    """`start` and `step` of a language model for generation; its weights must not change meanwhile."""

    @torch.no_grad()
    def __init__(self, model: LanguageModel) -> None:
        self.model, self.longest = model, model.longest
        self.decoder = FastDecoderOnly(model.decoder)
        self.embedding = model.embedding.weight.detach()
        self.output = FastLinear(model.output)
        table = getattr(model.positions, "table", None)
        self.table: Tensor | None = None if table is None else table.detach()  # (T, D)

    @torch.no_grad()
    def start(self, tokens: Tensor, *, capacity: int) -> tuple[Tensor, FastCache]:
        """(B, T) -> (B, T, V), and a cache for `capacity` positions, which contains the first T"""
        x_BTD, cache = self.decoder.start(self.model._embed(tokens), capacity=capacity)
        return x_BTD @ self.output.matrix, cache

    def step(self, tokens: Tensor, cache: FastCache) -> Tensor:
        """(N) -> (N, V)

        The logits of the token after each of `tokens`: the next one of each sequence, or the next N of the
        only sequence. They are added to the cache.
        """
        x_ND = self.embedding.index_select(0, tokens)
        if self.table is not None:
            count = len(tokens) // cache.batch
            end = cache.length + count
            if end <= len(self.table):
                x_ND += self.table[cache.length : end]
            else:
                x_ND = self.model.positions(x_ND.view(-1, count, x_ND.shape[1]), cache.length).flatten(0, 1)
        return self.output(self.decoder.step(x_ND, cache))

    def draft(self) -> "LanguageGenerator | None":
        """A copy for approximate steps of one sequence, with weights of eight bits, which `step` can use to
        guess several tokens; None where it would not be faster.
        """
        weights = sum(p.numel() for p in self.model.parameters()) - self.model.embedding.weight.numel()
        weights += self.output.matrix.numel()
        if weights < WORTH_DRAFTS or not (SUMS_ROWS and is_plain(self.embedding, self.output.matrix)):
            return None
        other = copy(self)
        other.decoder, other.output = self.decoder.in_eight_bits(), self.output.in_eight_bits()
        return other
