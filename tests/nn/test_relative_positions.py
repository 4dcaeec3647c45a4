"""Rotary positions and ALiBi: their formulas, and the promise that only distances matter."""

import pytest
import torch
from support import B, H, S, T, assert_same, must_fail
from torch import Tensor

from limelight.errors import WrongInput
from limelight.nn import Alibi, Rotary, alibi_slopes, rotate, rotation_table
from limelight.nn.relative_positions import PRECOMPUTED

K = 14  # rotary positions need an even width
PAIRINGS = pytest.mark.parametrize("pairing", ["halves", "interleaved"])


def partner(i: int, pairing: str) -> tuple[int, int, int]:
    """The pair that feature i belongs to, and its two features."""
    if pairing == "halves":
        return i % (K // 2), i % (K // 2), i % (K // 2) + K // 2
    return i // 2, i - i % 2, i - i % 2 + 1


@PAIRINGS
def test_each_pair_is_rotated_by_the_angle_of_its_position(pairing: str) -> None:
    x, start = torch.randn(T, K, dtype=torch.float64), 3
    expected = torch.empty_like(x)
    for t in range(T):
        for i in range(K):
            pair, first, second = partner(i, pairing)
            angle = torch.tensor((start + t) / 10_000 ** (2 * pair / K), dtype=torch.float64)
            signs = (angle.cos(), -angle.sin()) if i == first else (angle.sin(), angle.cos())
            expected[t, i] = signs[0] * x[t, first] + signs[1] * x[t, second]
    got = Rotary(K, pairing)(x, start)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    must_fail(torch.testing.assert_close, Rotary(K, pairing)(x, start + 1), expected)
    other = {"halves": "interleaved", "interleaved": "halves"}[pairing]
    must_fail(torch.testing.assert_close, Rotary(K, other)(x, start), expected)


@PAIRINGS
def test_a_score_depends_on_the_distance_only(pairing: str) -> None:
    rotary = Rotary(K, pairing)
    query, key = torch.randn(1, K), torch.randn(1, K)

    def score(at: int, distance: int) -> Tensor:
        return (rotary(query, at) * rotary(key, at - distance)).sum()

    torch.testing.assert_close(score(100, 3), score(7, 3), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(score(PRECOMPUTED + 9, 3), score(7, 3), rtol=1e-3, atol=1e-3)
    must_fail(torch.testing.assert_close, score(7, 4), score(7, 3))


def test_a_permutation_of_the_features_turns_one_pairing_into_the_other() -> None:
    table, x = rotation_table(T, K), torch.randn(B, H, T, K)
    order = torch.arange(K).view(2, -1).T.flatten()
    assert_same(rotate(x[..., order], table, "interleaved"), rotate(x, table, "halves")[..., order])


def test_positions_beyond_the_precomputed_ones_continue_them() -> None:
    rotary, start = Rotary(K), PRECOMPUTED - 2
    table = rotary.rotations(T, start)
    assert_same(table[:, :2], rotary.rotations(2, start))
    assert_same(table, rotation_table(PRECOMPUTED + T, K)[:, start : start + T])


def test_rotary_positions_need_an_even_width_and_a_known_pairing() -> None:
    with pytest.raises(WrongInput, match="width of a head is 7; allowed: an even number"):
        Rotary(7)
    with pytest.raises(WrongInput, match="pairing is 'both'"):
        Rotary(K, "both")


def test_the_slopes_of_alibi_are_those_of_the_paper() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    torch.testing.assert_close(alibi_slopes(3), torch.tensor([2.0**-4, 2.0**-8, 2.0**-2]))
    assert alibi_slopes(1).tolist() == [2.0**-8]


def test_the_bias_of_alibi_is_the_slope_times_the_distance() -> None:
    bias = Alibi(H)(T, past=2)
    assert bias.shape == (1, H, T, 2 + T)
    slopes = alibi_slopes(H)
    for head in range(H):
        for t in range(T):
            for s in range(2 + T):
                assert bias[0, head, t, s] == -slopes[head] * abs(t + 2 - s)
    assert_same(Alibi(H)(1, S)[0, :, 0], bias.new_tensor(range(-S, 1)) * slopes.unsqueeze(1))
