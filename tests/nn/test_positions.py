import math
from collections.abc import Callable

import pytest
import torch
from support import DTYPES, EXACT, B, D, H, T, check_equivariance, must_fail

from limelight.nn import LearnedPositions, MultiHeadAttention, SinusoidalPositions, sinusoids


@pytest.mark.parametrize("width", [1, 2, 7, D])
def test_sinusoids_follow_the_formula_at_odd_and_even_widths(width: int) -> None:
    table = sinusoids(T, width)
    for p in range(T):
        for column in range(width):
            angle = p / 10000 ** (2 * (column // 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert float(table[p, column]) == pytest.approx(expected, abs=1e-6)


def test_sinusoids_work_at_any_length_and_start() -> None:
    whole = sinusoids(5003, 6)
    torch.testing.assert_close(sinusoids(3, 6, start=5000), whole[5000:], **EXACT)
    assert math.sin(5000.0) == pytest.approx(float(whole[5000, 0]), abs=1e-3)


@DTYPES
def test_sinusoidal_positions_are_added_and_not_stored(dtype: torch.dtype) -> None:
    positions = SinusoidalPositions(D).to(dtype)
    x = torch.randn(B, T, D, dtype=dtype)
    torch.testing.assert_close(positions(x), x + sinusoids(T, D).to(dtype), **EXACT)
    assert positions(x).dtype == dtype
    assert not positions.state_dict()


@pytest.mark.parametrize("positions", [SinusoidalPositions(D), LearnedPositions(D, T)])
def test_a_later_start_continues_the_sequence(positions: torch.nn.Module) -> None:
    x = torch.randn(B, T, D)
    pieces = torch.cat([positions(x[:, :2]), positions(x[:, 2:], start=2)], 1)
    torch.testing.assert_close(pieces, positions(x), **EXACT)


def test_learned_positions_are_the_rows_of_their_table_and_get_gradients() -> None:
    positions = LearnedPositions(D, T + 2)
    x = torch.zeros(B, T, D)
    output = positions(x)
    torch.testing.assert_close(output, positions.table[:T].expand(B, T, D), **EXACT)
    output.sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad[:T].eq(B).all()
    assert positions.table.grad[T:].eq(0).all()
    assert list(positions.state_dict()) == ["table"]


@pytest.mark.parametrize(("length", "start"), [(T + 1, 0), (1, T), (1, -1)])
def test_a_position_beyond_the_learned_table_is_rejected(length: int, start: int) -> None:
    message = f"x is at positions {start} to {start + length - 1}; allowed: the 5 learned ones, from 0 on"
    with pytest.raises(ValueError, match=message):
        LearnedPositions(D, T)(torch.randn(B, length, D), start=start)


def test_dropout_outside_its_range_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"dropout is 1.5; allowed: at least 0 and less than 1"):
        SinusoidalPositions(D, dropout=1.5)


@pytest.mark.parametrize("make", [SinusoidalPositions, lambda *a: LearnedPositions(D, T, *a[1:])])
def test_dropout_acts_in_training_only(make: Callable[..., torch.nn.Module]) -> None:
    positions = make(D, 0.5)
    x = torch.ones(B, T, D)
    assert positions(x).eq(0).any()
    assert not positions.eval()(x).eq(0).any()


@pytest.mark.parametrize("positions", [SinusoidalPositions(D), LearnedPositions(D, T)])
def test_positions_break_the_permutation_equivariance_of_attention(positions: torch.nn.Module) -> None:
    attention = MultiHeadAttention(D, H)
    check_equivariance(attention)
    must_fail(check_equivariance, lambda x: attention(positions(x)))


@pytest.mark.parametrize("x", [torch.ones(B, T, D + 1), torch.ones(T, D), torch.ones(B, T, D).long()])
@pytest.mark.parametrize("positions", [SinusoidalPositions(D), LearnedPositions(D, T)])
def test_invalid_inputs_raise_an_error_that_names_them(positions: torch.nn.Module, x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="x is of "):
        positions(x)
