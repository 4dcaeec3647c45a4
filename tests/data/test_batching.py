import pytest
import torch
from support import goes_red

from limelight.data.batching import MOST_TOKENS, Batch, Examples, epoch_batches, even_batches
from limelight.data.ragged import Ragged

LENGTHS = torch.randint(1, 30, (997,), generator=torch.Generator().manual_seed(3))


def check_order(batches: list[torch.Tensor], size: int) -> None:
    """Each example once, in batches of one size but for the rest."""
    assert torch.cat(batches).sort().values.equal(torch.arange(len(LENGTHS)))
    assert max(len(batch) for batch in batches) == size
    assert len(batches) == -(-len(LENGTHS) // size)


def test_an_epoch_visits_every_example_once() -> None:
    for epoch in range(3):
        check_order(epoch_batches(LENGTHS, 7, seed=1, epoch=epoch), 7)
    check_order(even_batches(LENGTHS, 7), 7)
    goes_red(check_order, epoch_batches(LENGTHS, 7, 1, 0)[1:], 7)


def check_room(batches: list[torch.Tensor], lengths: torch.Tensor) -> None:
    assert torch.cat(batches).sort().values.equal(torch.arange(len(lengths)))
    assert all(len(batch) * int(lengths[batch].max()) <= MOST_TOKENS for batch in batches if len(batch) > 1)


def test_of_long_examples_fewer_stand_together() -> None:
    lengths = torch.cat((LENGTHS, torch.full((600,), 1_000), torch.tensor([10 * MOST_TOKENS])))
    check_room(even_batches(lengths, 500), lengths)
    assert len(even_batches(lengths, 500)[0]) == 500
    goes_red(check_room, list(lengths.argsort().split(500)), lengths)


def test_an_epochs_order_is_a_function_and_not_a_history() -> None:
    before = epoch_batches(LENGTHS, 7, seed=1, epoch=5)
    torch.randn(100)
    epoch_batches(LENGTHS, 7, seed=1, epoch=4)
    again = epoch_batches(LENGTHS, 7, seed=1, epoch=5)
    assert all(a.equal(b) for a, b in zip(before, again, strict=True))
    for seed, epoch in ((2, 5), (1, 6)):
        other = epoch_batches(LENGTHS, 7, seed=seed, epoch=epoch)
        assert not torch.cat(before).equal(torch.cat(other))


def padding(batches: list[torch.Tensor]) -> float:
    computed = sum(len(batch) * int(LENGTHS[batch].max()) for batch in batches)
    return 1 - float(LENGTHS.sum()) / computed


def test_batches_of_similar_length_have_little_padding() -> None:
    random = list(torch.randperm(len(LENGTHS)).split(7))
    assert padding(random) > 0.3
    assert padding(epoch_batches(LENGTHS, 7, seed=1, epoch=0)) < 0.06


def test_batches_do_not_come_sorted() -> None:
    longest = [int(LENGTHS[batch].max()) for batch in epoch_batches(LENGTHS, 7, seed=1, epoch=0)]
    assert longest != sorted(longest)
    assert abs(torch.corrcoef(torch.tensor([longest, list(range(len(longest)))]).float())[0, 1]) < 0.3


def whole() -> Batch:
    rows = [torch.full((int(n),), i) for i, n in enumerate(LENGTHS)]
    return Examples(Ragged.of(rows), torch.arange(len(rows))).batch(torch.arange(11))


@pytest.mark.parametrize("pieces", [1, 2, 3, 13])
def test_a_batch_in_pieces_is_the_batch(pieces: int) -> None:
    batch = whole()
    parts = batch.split(pieces)
    assert len(parts) == pieces
    assert torch.cat([part.inputs for part in parts]).equal(batch.inputs)
    assert torch.cat([part.lengths for part in parts]).equal(batch.lengths)
    assert torch.cat([part.targets for part in parts]).equal(batch.targets)
    assert sum(part.tokens for part in parts) == batch.tokens == int(LENGTHS[:11].sum())
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
