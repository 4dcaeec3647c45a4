"""Batches and the order of an epoch."""

import pytest
import torch
from support import must_fail, not_none

from limelight.data.batching import MOST_TOKENS, Batch, Examples, epoch_batches, even_batches
from limelight.data.ragged import Ragged

LENGTHS = torch.randint(1, 30, (997,), generator=torch.Generator().manual_seed(3))


def check_order(batches: list[torch.Tensor], size: int) -> None:
    """Each example occurs once; all batches except the last have the same size."""
    assert torch.cat(batches).sort().values.equal(torch.arange(len(LENGTHS)))
    assert max(len(batch) for batch in batches) == size
    assert len(batches) == -(-len(LENGTHS) // size)


def test_an_epoch_visits_every_example_once() -> None:
    for epoch in range(3):
        check_order(epoch_batches(LENGTHS, 7, seed=1, epoch=epoch), 7)
    check_order(even_batches(LENGTHS, 7), 7)
    must_fail(check_order, epoch_batches(LENGTHS, 7, 1, 0)[1:], 7)


def check_token_limit(batches: list[torch.Tensor], lengths: torch.Tensor) -> None:
    assert torch.cat(batches).sort().values.equal(torch.arange(len(lengths)))
    assert all(len(batch) * int(lengths[batch].max()) <= MOST_TOKENS for batch in batches if len(batch) > 1)


def test_batches_of_long_examples_contain_fewer_examples() -> None:
    lengths = torch.cat((LENGTHS, torch.full((600,), 1_000), torch.tensor([10 * MOST_TOKENS])))
    check_token_limit(even_batches(lengths, 500), lengths)
    assert len(even_batches(lengths, 500)[0]) == 500
    must_fail(check_token_limit, list(lengths.argsort().split(500)), lengths)


def test_the_order_of_an_epoch_depends_only_on_seed_and_epoch() -> None:
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


def test_batches_are_not_sorted_by_length() -> None:
    longest = [int(LENGTHS[batch].max()) for batch in epoch_batches(LENGTHS, 7, seed=1, epoch=0)]
    assert longest != sorted(longest)
    assert abs(torch.corrcoef(torch.tensor([longest, list(range(len(longest)))]).float())[0, 1]) < 0.3


def whole() -> Batch:
    rows = [torch.full((int(n),), i) for i, n in enumerate(LENGTHS)]
    return Examples(Ragged.from_rows(rows), torch.arange(len(rows))).batch(torch.arange(11))


@pytest.mark.parametrize("pieces", [1, 2, 3, 13])
def test_the_parts_of_a_split_batch_concatenate_to_the_batch(pieces: int) -> None:
    batch = whole()
    parts = batch.split(pieces)
    assert len(parts) == pieces
    assert torch.cat([part.inputs for part in parts]).equal(batch.inputs)
    assert torch.cat([not_none(part.lengths) for part in parts]).equal(not_none(batch.lengths))
    assert torch.cat([part.targets for part in parts]).equal(batch.targets)
    assert sum(part.tokens for part in parts) == batch.tokens == int(LENGTHS[:11].sum())
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
