"""Rows of different lengths in one tensor."""

import torch
from support import EXACT, not_none

from limelight.data.ragged import Ragged


def test_selected_rows_are_padded_to_the_longest_of_them() -> None:
    rows = [torch.arange(1, n + 1) * 10**i for i, n in enumerate((2, 5, 3))]
    ragged = Ragged.from_rows(rows)
    assert len(ragged) == 3
    assert ragged.lengths.tolist() == [2, 5, 3]
    padded, lengths = ragged.pad(torch.tensor([2, 0]), fill=-1)
    assert padded.tolist() == [[100, 200, 300], [1, 2, -1]]
    assert not_none(lengths).tolist() == [3, 2]
    assert [ragged[i].tolist() for i in range(3)] == [row.tolist() for row in rows]


def test_rows_of_equal_length_need_no_lengths() -> None:
    rows = torch.randn(3, 5, 7)
    padded, lengths = Ragged.from_tensor(rows).pad(torch.tensor([2, 0]))
    torch.testing.assert_close(padded, rows[[2, 0]], **EXACT)
    assert lengths is None


def test_selecting_no_rows_gives_an_empty_batch() -> None:
    padded, lengths = Ragged.from_rows([torch.arange(3)]).pad(torch.tensor([], dtype=torch.long))
    assert len(padded) == 0
    assert lengths is None
