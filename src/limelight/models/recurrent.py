"""A recurrent encoder–decoder with additive attention, the first use of attention in translation."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from limelight.models.blocks import count
from limelight.models.config import ModelConfig
from limelight.models.sizes import Sizes
from limelight.nn import AdditiveAttention, Dropout, Packing, padding_mask


class RecurrentConfig(ModelConfig):
    """The settings of a recurrent encoder–decoder."""

    kind: Literal["recurrent"] = Field("recurrent", description="the kind of model")
    width: int = Field(256, ge=1, le=65_536, description="width of the GRU states and of the attention")
    depth: int = Field(1, ge=1, le=100, description="GRU layers of the encoder and of the decoder")
    embedding: int = Field(256, ge=1, le=65_536, description="width of the token embeddings")
    bidirectional: bool = Field(True, description="whether the encoder reads the source in both directions")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout probability of embeddings, between layers and before the output"
    )

    @property
    def summary(self) -> str:
        """The model in one line: "recurrent: 1 layer, width 256, both directions, additive attention"."""
        directions = "both directions" if self.bidirectional else "one direction"
        parts = [count(self.depth, "layer"), f"width {self.width}", directions, "additive attention"]
        return f"{self.kind}: {', '.join(parts)}"

    def build(self, sizes: Sizes) -> "Recurrent":
        """A model with random weights."""
        return Recurrent(self, sizes)


@dataclass
class RecurrentState:
    """The state of the decoder between two steps."""

    memory: Tensor  # (B, S, M), the encoder output
    keys: Tensor  # (B, S, A), the projected memory
    mask: Tensor | None  # (B, 1, S), the padding mask of the memory
    gru: Tensor  # (Z, B, D), the state of each GRU layer

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keeps the sequences with the indices `index` (R), in that order: surviving beams, unfinished ones.

        Without `sources`, each row keeps its present source, like beams of one sentence.
        """
        if sources:
            self.memory, self.keys = self.memory.index_select(0, index), self.keys.index_select(0, index)
            self.mask = None if self.mask is None else self.mask.index_select(0, index)
        self.gru = self.gru.index_select(1, index)


class Recurrent(nn.Module):
    """A GRU encoder, and a GRU decoder that attends to the source at every step (Bahdanau et al. 2015).

    The query is the previous state of the last decoder layer. The decoder reads the embedding of the token
    and the context, which is the result of the attention.
    """

    longest: int | None = None  # the maximum length of a sequence; None: any length

    def __init__(self, config: RecurrentConfig, sizes: Sizes) -> None:
        super().__init__()
        width, depth, embedding = config.width, config.depth, config.embedding
        memory = width * (2 if config.bidirectional else 1)
        between = config.dropout if depth > 1 else 0.0
        self.source_embedding = nn.Embedding(sizes.vocabulary, embedding)
        self.target_embedding = nn.Embedding(sizes.outputs, embedding)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.GRU(
            embedding, width, depth, batch_first=True, dropout=between, bidirectional=config.bidirectional
        )
        self.bridge = nn.Linear(memory, width)
        self.attention = AdditiveAttention(width, memory, width)
        self.decoder = nn.GRU(embedding + memory, width, depth, batch_first=True, dropout=between)
        self.mixture = nn.Linear(width + memory + embedding, embedding)
        self.output = nn.Linear(embedding, sizes.outputs)

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
        (N, E) inputs of the output layer.
        """
        state = self.start(source, lengths)
        embedded_BTE = self.dropout(self.target_embedding(target))
        steps = [self._decode_step(embedded_B1E, state) for embedded_B1E in embedded_BTE.split(1, 1)]
        features = torch.cat((torch.cat(steps, 1), embedded_BTE), -1)
        if target_lengths is None:
            features = features.flatten(0, 1)
        else:
            features = Packing(padding_mask(target_lengths, target.shape[1])).take(features)
        x_NE = self._combine(features)
        return self.output(x_NE) if logits else x_NE

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int = 0) -> RecurrentState:
        """(B, S), (B) -> the state before the first token

        Encodes the source. `capacity` has no effect: the size of the state does not depend on the length.
        """
        embedded_BSE = self.dropout(self.source_embedding(source))
        if lengths is None:
            memory_BSM, final = self.encoder(embedded_BSE)
            mask = None
        else:
            packed = pack_padded_sequence(embedded_BSE, lengths.cpu(), batch_first=True, enforce_sorted=False)
            outputs, final = self.encoder(packed)
            memory_BSM, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])
            mask = padding_mask(lengths, source.shape[1])
        # The final state of each layer; those of the two directions are concatenated.
        final_ZBM = final.unflatten(0, (self.decoder.num_layers, -1)).transpose(1, 2).flatten(2)
        state_ZBD = torch.tanh(self.bridge(final_ZBM))
        return RecurrentState(memory_BSM, self.attention.project(memory_BSM), mask, state_ZBD)

    def step(self, tokens: Tensor, state: RecurrentState) -> Tensor:
        """(B) -> (B, V)

        The logits of the token after `tokens`; updates the state.
        """
        embedded_B1E = self.dropout(self.target_embedding(tokens)).unsqueeze(1)
        step = self._decode_step(embedded_B1E, state)
        return self.output(self._combine(torch.cat((step, embedded_B1E), -1).squeeze(1)))

    def generator(self) -> "Recurrent":
        """The model itself, which already generates step by step."""
        return self

    def _decode_step(self, embedded: Tensor, state: RecurrentState) -> Tensor:
        """(B, 1, E) -> (B, 1, D + M)

        The decoder output and the context for one token; updates the state.
        """
        query_B1D = state.gru[-1].unsqueeze(1)
        context_B1M = self.attention(query_B1D, state.memory, state.mask, keys=state.keys)
        output_B1D, state.gru = self.decoder(torch.cat((embedded, context_B1M), -1), state.gru)
        return torch.cat((output_B1D, context_B1M), -1)

    def _combine(self, features: Tensor) -> Tensor:
        """(..., D + M + E) -> (..., E)"""
        return self.dropout(torch.tanh(self.mixture(features)))
