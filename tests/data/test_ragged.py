import torch
from support import EXACT

from limelight.data.ragged import Ragged


def test_rows_come_back_padded_to_the_longest_asked_for() -> None:
    rows = [torch.arange(1, n + 1) * 10**i for i, n in enumerate((2, 5, 3))]
    ragged = Ragged.of(rows)
    assert len(ragged) == 3
    assert ragged.lengths.tolist() == [2, 5, 3]
    padded, lengths = ragged.pad(torch.tensor([2, 0]), fill=-1)
    assert padded.tolist() == [[100, 200, 300], [1, 2, -1]]
    assert lengths.tolist() == [3, 2]
    assert [ragged[i].tolist() for i in range(3)] == [row.tolist() for row in rows]


def test_rows_of_one_length_have_no_lengths() -> None:
    rows = torch.randn(3, 5, 7)
    padded, lengths = Ragged.even(rows).pad(torch.tensor([2, 0]))
    torch.testing.assert_close(padded, rows[[2, 0]], **EXACT)
    assert lengths is None


def test_no_rows_give_an_empty_batch() -> None:
    padded, lengths = Ragged.of([torch.arange(3)]).pad(torch.tensor([], dtype=torch.long))
    assert len(padded) == 0
    assert lengths is None
