"""The documents of a text as training examples: sentences, for a text with one per line."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from limelight.data.batching import Batch
from limelight.data.text.token_file import Tokens

READ = 2**22  # tokens that are searched at once for the ends of documents


@dataclass(frozen=True)
class TextDocuments:
    """A split, as documents; one that is longer than `context` tokens is several examples.

    Only the place of each example is kept in memory.
    """

    tokens: Tokens
    starts: Tensor  # (N)
    lengths: Tensor  # (N)
    context: int

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, index: Tensor) -> Batch:
        """The examples with these indices (B), padded; they are their own targets."""
        start_B1, lengths_B = self.starts[index].unsqueeze(1), self.lengths[index]
        position_T = torch.arange(int(lengths_B.max()) if len(index) else 0)
        padding_BT = position_T >= lengths_B.unsqueeze(1)
        place_BT = (start_B1 + position_T).masked_fill(padding_BT, 0)
        tokens_BT = torch.from_numpy(self.tokens.at(place_BT.numpy()).astype(np.int64))
        tokens_BT = tokens_BT.masked_fill(padding_BT, 0)
        return Batch(tokens_BT, tokens_BT, index, lengths_B if bool(padding_BT.any()) else None)


def find_documents(tokens: Tokens, first: int, count: int, context: int, limit: int = 0) -> TextDocuments:
    """The documents among `count` tokens, from token `first` on; empty ones are left out."""
    begin = first
    starts_of, lengths_of, total = list[np.ndarray](), list[np.ndarray](), 0
    for ends in _ends(tokens, first, count):
        starts = np.concatenate(([begin], ends[:-1] + 1)) if len(ends) else ends
        pieces = _pieces(starts, ends - starts, context)
        starts_of.append(pieces[0])
        lengths_of.append(pieces[1])
        total += len(pieces[0])
        begin = int(ends[-1]) + 1 if len(ends) else begin
        if limit and total >= limit:
            break
    starts_N, lengths_N = (
        torch.from_numpy(np.concatenate(one)[: limit or None]) for one in (starts_of, lengths_of)
    )
    return TextDocuments(tokens, starts_N, lengths_N, context)


def _ends(tokens: Tokens, first: int, count: int) -> Iterator[np.ndarray]:
    """The positions of all ends of documents; that of the last document is after the last token."""
    for start in range(first, first + count, READ):
        end = tokens.entry.reader.end
        block = tokens.at(np.arange(start, min(start + READ, first + count)))
        yield np.flatnonzero(block == end) + start
    yield np.array([first + count])


def _pieces(starts: np.ndarray, lengths: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
    """(N), (N) -> (M), (M): the starts and the lengths of pieces of at most `context` tokens"""
    counts = -(-lengths // context)
    number = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    offsets = number * context
    pieces = np.minimum(np.repeat(lengths, counts) - offsets, context)
    return np.repeat(starts, counts) + offsets, pieces.astype(np.int32)
