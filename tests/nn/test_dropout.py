"""Dropout with cheap random numbers: exact in expectation, seeded, and off in evaluation."""

import pytest
import torch
from support import EXACT, must_fail, not_none
from torch import Tensor

from limelight.errors import WrongInput
from limelight.nn import Dropout, dropout


def check_unbiased(dropped: Tensor, share: float) -> None:
    """The share that is kept of a million ones, and their mean, to six standard errors."""
    kept = float((dropped != 0).float().mean())
    error = 6 * (share * (1 - share) / dropped.numel()) ** 0.5
    assert abs(kept - (1 - share)) <= error + 1e-5
    assert abs(float(dropped.mean()) - 1) <= error / (1 - share) + 1e-5
    assert len(dropped[dropped != 0].unique()) == 1


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_kept_elements_are_scaled_so_that_the_mean_stays(share: float) -> None:
    torch.manual_seed(1)
    ones = torch.ones(1_000, 1_003)
    check_unbiased(dropout(ones, share), share)
    must_fail(check_unbiased, dropout(ones, share) * (1 - share), share)
    must_fail(check_unbiased, dropout(ones, share + 0.005), share)


def test_the_scale_is_exact_for_the_rounded_share() -> None:
    scale = float(dropout(torch.ones(10_007), 1 / 3).max())
    assert scale == pytest.approx(65536 / round(65536 * 2 / 3), rel=1e-7)


def correlation(kept: Tensor, other: Tensor) -> float:
    return float(torch.corrcoef(torch.stack((kept.flatten(), other.flatten())).float())[0, 1])


def test_neighbours_are_dropped_independently() -> None:
    """Four elements share 64 random bits, and must be independent."""
    torch.manual_seed(1)
    kept = dropout(torch.ones(400_000), 0.3) != 0
    for distance in (1, 2, 3, 4, 5):
        assert abs(correlation(kept[:-distance], kept[distance:])) < 0.01, distance
    assert correlation(kept, kept) > 0.99


def test_the_gradient_is_dropped_where_the_value_is() -> None:
    x = torch.randn(7, 11, 13, requires_grad=True)
    dropped = dropout(x, 0.4)
    dropped.sum().backward()
    gradient = not_none(x.grad)
    torch.testing.assert_close(gradient * x.detach(), dropped.detach())
    assert 0 < int((gradient == 0).sum()) < x.numel()


def test_the_same_seed_drops_the_same_elements() -> None:
    def drop(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropout(torch.ones(5, 7), 0.5)

    torch.testing.assert_close(drop(3), drop(3), **EXACT)
    assert not drop(3).equal(drop(4))


def test_nothing_is_dropped_in_evaluation_or_where_the_share_is_zero() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert not Dropout(0.5).train()(torch.ones(100)).equal(torch.ones(100))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_dropout_keeps_the_type(dtype: torch.dtype) -> None:
    assert dropout(torch.ones(3, 0, dtype=dtype), 0.5).shape == (3, 0)
    assert dropout(torch.ones(3, 5, dtype=dtype), 0.5).dtype == dtype


def test_a_share_of_one_is_rejected() -> None:
    with pytest.raises(WrongInput, match=r"dropout is 1\.0"):
        Dropout(1.0)
