"""Sequences of different lengths in one flat tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths without padding: row i is `values[offsets[i] : offsets[i + 1]]`."""

    values: Tensor
    offsets: Tensor

    @staticmethod
    def from_rows(rows: Sequence[Tensor]) -> "Ragged":
        """Concatenate one tensor per row."""
        return Ragged.from_lengths(torch.cat(list(rows)), torch.tensor([len(row) for row in rows]))

    @staticmethod
    def from_lengths(values: Tensor, lengths: Tensor) -> "Ragged":
        """Rows that are already concatenated, given their lengths (N)."""
        return Ragged(values, F.pad(lengths.cumsum(0), (1, 0)))

    @staticmethod
    def from_tensor(rows: Tensor) -> "Ragged":
        """Rows of equal length, given as one tensor (N, T, ...)."""
        count, length = rows.shape[:2]
        return Ragged(rows.flatten(0, 1), torch.arange(count + 1) * length)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Tensor:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Tensor:
        """The length of each row, (N)."""
        return self.offsets.diff()

    @cached_property
    def _table(self) -> Tensor | None:
        """(N, T, ...) if all rows have the same length, so that a batch is a single `index_select`."""
        if not len(self) or not bool((self.lengths == self.lengths[0]).all()):
            return None
        return self.values.unflatten(0, (len(self), int(self.lengths[0])))

    def pad(self, index: Tensor, fill: int = 0) -> tuple[Tensor, Tensor | None]:
        """(B) -> (B, T, ...), (B)

        The selected rows, padded with `fill` to the longest of them, and their lengths; the lengths are None
        if no row needs padding.
        """
        if self._table is not None:
            return self._table.index_select(0, index), None
        start_B = self.offsets[index]
        lengths_B = self.offsets[index + 1] - start_B
        longest = int(lengths_B.max()) if len(index) else 0
        position_T = torch.arange(longest, device=index.device)
        position_BT = start_B.unsqueeze(1) + position_T
        if bool((lengths_B == longest).all()):
            return self.values[position_BT], None
        padding_BT = position_T >= lengths_B.unsqueeze(1)
        padded_BT = self.values[position_BT.masked_fill(padding_BT, 0)]
        padded_BT[padding_BT] = fill
        return padded_BT, lengths_B
