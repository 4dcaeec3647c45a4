"""A translation Transformer as a textbook builds it: padded batches, explicit attention, post-norm.

Our own implementation of the architecture of Dive into Deep Learning, chapter 11 (Zhang et al. 2023): lengths
are repeated for every head and every query, a masked softmax over all scores, projections without biases, no
dropout between the feed-forward layers. Linear layers have a fixed input width; the book's are lazy until the
first call, which makes no difference afterwards. The package of the book contains no decoder, only its text.
"""

import math

import torch
from torch import Tensor, nn

MASKED = -1e6  # the score of a masked key


def masked_softmax(scores: Tensor, lengths: Tensor | None) -> Tensor:
    """(n, T, S), (n) or (n, T) -> (n, T, S): keys beyond the length get no weight."""
    if lengths is None:
        return scores.softmax(-1)
    if lengths.dim() == 1:
        lengths = lengths.repeat_interleave(scores.shape[1])
    rows = scores.reshape(-1, scores.shape[-1])
    masked = torch.arange(rows.shape[1]) >= lengths.reshape(-1, 1)
    return rows.masked_fill(masked, MASKED).view_as(scores).softmax(-1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention with all heads of a batch in one axis, n = B·H."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, memory: Tensor, lengths: Tensor | None) -> Tensor:
        q, k, v = (self._split(part) for part in (self.query(queries), self.key(memory), self.value(memory)))
        if lengths is not None:
            lengths = lengths.repeat_interleave(self.heads, dim=0)
        weights = masked_softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1]), lengths)
        mixed = torch.bmm(self.dropout(weights), v).unflatten(0, (-1, self.heads))
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B·H, T, K)"""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)


class AddNorm(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm(self.dropout(y) + x)


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.expand(x).relu())


class EncoderBlock(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(width, heads, dropout)
        self.self_residual = AddNorm(width, dropout)
        self.feedforward = FeedForward(width, hidden)
        self.feedforward_residual = AddNorm(width, dropout)

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        x = self.self_residual(x, self.self_attention(x, x, lengths))
        return self.feedforward_residual(x, self.feedforward(x))


class DecoderBlock(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(width, heads, dropout)
        self.self_residual = AddNorm(width, dropout)
        self.cross_attention = MultiHeadAttention(width, heads, dropout)
        self.cross_residual = AddNorm(width, dropout)
        self.feedforward = FeedForward(width, hidden)
        self.feedforward_residual = AddNorm(width, dropout)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor | None) -> Tensor:
        batch, steps, _ = x.shape
        visible = torch.arange(1, steps + 1).repeat(batch, 1)  # position t may attend to the first t
        x = self.self_residual(x, self.self_attention(x, x, visible))
        x = self.cross_residual(x, self.cross_attention(x, memory, lengths))
        return self.feedforward_residual(x, self.feedforward(x))


class Embedding(nn.Module):
    """Token embeddings × √D plus sinusoidal positions, then dropout."""

    def __init__(self, vocabulary: int, width: int, dropout: float, longest: int = 1000) -> None:
        super().__init__()
        self.tokens, self.dropout = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        even = torch.arange(0, width, 2, dtype=torch.float32)
        angle = torch.arange(longest, dtype=torch.float32).unsqueeze(1) / torch.pow(10000, even / width)
        self.sinusoids = torch.stack((angle.sin(), angle.cos()), -1).flatten(1).unsqueeze(0)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim)
        return self.dropout(x + self.sinusoids[:, : x.shape[1]])


class Book(nn.Module):
    def __init__(
        self,
        vocabularies: tuple[int, int],
        depths: tuple[int, int],
        width: int,
        hidden: int,
        heads: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = (
            Embedding(vocabulary, width, dropout) for vocabulary in vocabularies
        )
        self.encoder = nn.ModuleList(EncoderBlock(width, hidden, heads, dropout) for _ in range(depths[0]))
        self.decoder = nn.ModuleList(DecoderBlock(width, hidden, heads, dropout) for _ in range(depths[1]))
        self.output = nn.Linear(width, vocabularies[1])

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """(B, S), (B), (B, T) -> (B, T, V)"""
        memory = self.source_embedding(source)
        for block in self.encoder:
            memory = block(memory, lengths)
        x = self.target_embedding(target)
        for block in self.decoder:
            x = block(x, memory, lengths)
        return self.output(x)
