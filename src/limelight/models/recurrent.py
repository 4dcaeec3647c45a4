"""A recurrent network that translates with additive attention: what attention was invented for."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from limelight.config import Config
from limelight.models.sizes import Sizes
from limelight.nn import AdditiveAttention, Dropout, Packing, padding_mask


class RecurrentConfig(Config):
    kind: Literal["recurrent"] = "recurrent"
    width: int = Field(256, ge=1, le=65_536)
    depth: int = Field(1, ge=1, le=100)
    embedding: int = Field(256, ge=1, le=65_536)
    bidirectional: bool = True
    dropout: float = Field(0.0, ge=0, lt=1)

    def build(self, sizes: Sizes) -> "Recurrent":
        return Recurrent(self, sizes)


@dataclass
class RecurrentState:
    """All that the decoder needs beside the next token."""

    memory: Tensor  # (B, S, M)
    keys: Tensor  # (B, S, A), projected once
    mask: Tensor | None  # (B, 1, S)
    hidden: Tensor  # (depth, B, D)

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keep the sequences that `index` (R) names, in its order: beams survive, finished ones leave.

        Without `sources`, each goes on with the source that its row had.
        """
        if sources:
            self.memory, self.keys = self.memory.index_select(0, index), self.keys.index_select(0, index)
            self.mask = None if self.mask is None else self.mask.index_select(0, index)
        self.hidden = self.hidden.index_select(1, index)


class Recurrent(nn.Module):
    """A GRU reads the source; a second one writes, looking back at every step (Bahdanau et al. 2015).

    The query is the decoder's last hidden state; what it finds goes in with the embedding.
    """

    longest: int | None = None  # it reads and writes any length

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

        What may follow each real token of the target; the tokens of one sentence after those of another.
        Without `logits`, (N, E): what `output` would make them of.
        """
        state = self.start(source, lengths)
        embedded_BTE = self.dropout(self.target_embedding(target))
        seen = [self._look(embedded_B1E, state) for embedded_B1E in embedded_BTE.split(1, 1)]
        found = torch.cat((torch.cat(seen, 1), embedded_BTE), -1)
        if target_lengths is None:
            found = found.flatten(0, 1)
        else:
            found = Packing(padding_mask(target_lengths, target.shape[1])).take(found)
        x_NE = self._think(found)
        return self.output(x_NE) if logits else x_NE

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int = 0) -> RecurrentState:
        """(B, S), (B) -> what stands before the first token; it has room for any number of them"""
        embedded_BSE = self.dropout(self.source_embedding(source))
        if lengths is None:
            memory_BSM, last = self.encoder(embedded_BSE)
            mask = None
        else:
            packed = pack_padded_sequence(embedded_BSE, lengths.cpu(), batch_first=True, enforce_sorted=False)
            outputs, last = self.encoder(packed)
            memory_BSM, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])
            mask = padding_mask(lengths, source.shape[1])
        # Of each layer the last state, of both directions where there are two.
        last_LBM = last.unflatten(0, (self.decoder.num_layers, -1)).transpose(1, 2).flatten(2)
        hidden_LBD = torch.tanh(self.bridge(last_LBM))
        return RecurrentState(memory_BSM, self.attention.project(memory_BSM), mask, hidden_LBD)

    def step(self, tokens: Tensor, state: RecurrentState) -> Tensor:
        """(B) -> (B, V)

        What may follow the next token of each target; the state has then seen that token too.
        """
        embedded_B1E = self.dropout(self.target_embedding(tokens)).unsqueeze(1)
        seen = self._look(embedded_B1E, state)
        return self.output(self._think(torch.cat((seen, embedded_B1E), -1).squeeze(1)))

    def writer(self) -> "Recurrent":
        return self

    def _look(self, embedded: Tensor, state: RecurrentState) -> Tensor:
        """(B, 1, E) -> (B, 1, D + M), the hidden state and the context; moves the state on by one token"""
        query_B1D = state.hidden[-1].unsqueeze(1)
        context_B1M = self.attention(query_B1D, state.memory, state.mask, keys=state.keys)
        hidden_B1D, state.hidden = self.decoder(torch.cat((embedded, context_B1M), -1), state.hidden)
        return torch.cat((hidden_B1D, context_B1M), -1)

    def _think(self, found: Tensor) -> Tensor:
        """(..., D + M + E) -> (..., E)"""
        return self.dropout(torch.tanh(self.mixture(found)))
