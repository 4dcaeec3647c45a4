"""Rows of different lengths in one flat tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i] : offsets[i + 1]]`: nothing is stored for padding."""

    values: Tensor
    offsets: Tensor

    @staticmethod
    def of(rows: Sequence[Tensor]) -> "Ragged":
        return Ragged.cut(torch.cat(list(rows)), torch.tensor([len(row) for row in rows]))

    @staticmethod
    def cut(values: Tensor, lengths: Tensor) -> "Ragged":
        """Rows of these lengths, that stand one after the other."""
        return Ragged(values, F.pad(lengths.cumsum(0), (1, 0)))

    @staticmethod
    def even(rows: Tensor) -> "Ragged":
        """(N, T, ...), all rows of one length"""
        count, length = rows.shape[:2]
        return Ragged(rows.flatten(0, 1), torch.arange(count + 1) * length)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Tensor:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Tensor:
        return self.offsets.diff()

    @cached_property
    def _table(self) -> Tensor | None:
        """(N, T, ...), where all rows are of one length: taking some of them is then a single operation."""
        if not len(self) or not bool((self.lengths == self.lengths[0]).all()):
            return None
        return self.values.unflatten(0, (len(self), int(self.lengths[0])))

    def pad(self, index: Tensor, fill: int = 0) -> tuple[Tensor, Tensor | None]:
        """(B) -> (B, T, ...), (B)

        The rows asked for, filled up to the longest, and their lengths; None where all are as long.
        """
        if self._table is not None:
            return self._table.index_select(0, index), None
        begin_B = self.offsets[index]
        lengths_B = self.offsets[index + 1] - begin_B
        longest = int(lengths_B.max()) if len(index) else 0
        place_T = torch.arange(longest, device=index.device)
        place_BT = begin_B.unsqueeze(1) + place_T
        if bool((lengths_B == longest).all()):
            return self.values[place_BT], None
        padding_BT = place_T >= lengths_B.unsqueeze(1)
        padded = self.values[place_BT.masked_fill(padding_BT, 0)]
        padded[padding_BT] = fill
        return padded, lengths_B
