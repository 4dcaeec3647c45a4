from typing import Any

import pytest
import torch

from limelight.nn import causal_mask, masked_softmax, padding_mask


def test_padding_mask_is_true_on_the_real_positions() -> None:
    mask = padding_mask(torch.tensor([2, 0, 3]), 5)
    assert mask.tolist() == [
        [[True, True, False, False, False]],
        [[False, False, False, False, False]],
        [[True, True, True, False, False]],
    ]


def test_padding_mask_is_as_long_as_the_longest_by_default() -> None:
    assert padding_mask([2, 7, 3]).shape == (3, 1, 7)


def test_lengths_may_differ_from_query_to_query() -> None:
    mask = padding_mask(torch.tensor([[1, 2], [3, 0]]), 3)
    assert mask.long().sum(-1).tolist() == [[1, 2], [3, 0]]
    assert mask[0].tolist() == [[True, False, False], [True, True, False]]


def test_an_empty_batch_has_an_empty_mask() -> None:
    assert padding_mask([]).shape == (0, 1, 0)
    assert padding_mask(torch.tensor([], dtype=torch.long), 5).shape == (0, 1, 5)


@pytest.mark.parametrize(
    ("lengths", "size", "message"),
    [
        ([2, 9], 7, r"lengths is from 2 to 9; allowed: 0 to size=7"),
        ([-1, 3], 7, r"lengths is from -1 to 3; allowed: 0 to size=7"),
        ([2.0, 3.0], 7, r"lengths is of type torch.float32; allowed: integers"),
        ([True, False], 7, r"lengths is of type torch.bool"),
        ([[[1]]], 7, r"lengths is of shape \(1, 1, 1\); allowed: \(B\) or \(B, T\)"),
    ],
)
def test_invalid_lengths_raise_an_error_that_names_them(lengths: list[Any], size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        padding_mask(torch.tensor(lengths), size)


def test_an_invalid_size_is_rejected() -> None:
    for size in (2.5, -1):
        with pytest.raises(ValueError, match=f"size is {size}; allowed: an integer of at least 0"):
            padding_mask([1, 2], size)  # type: ignore[arg-type]


def test_causal_mask_is_true_on_and_below_the_diagonal() -> None:
    assert causal_mask(3).tolist() == [[[True, False, False], [True, True, False], [True, True, True]]]


def test_causal_mask_includes_the_past() -> None:
    assert causal_mask(2, past=2).tolist() == [[[True, True, True, False], [True, True, True, True]]]


def test_causal_mask_of_no_queries_is_empty() -> None:
    assert causal_mask(0, past=3).shape == (1, 0, 3)


def test_a_negative_size_is_rejected() -> None:
    with pytest.raises(ValueError, match="size, past is"):
        causal_mask(-1)


def test_a_mask_of_numbers_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"mask is of type torch.float32; allowed: torch.bool, True"):
        masked_softmax(torch.zeros(2, 3, 5), torch.ones(2, 3, 5))


@pytest.mark.parametrize("shape", [(3, 5), (2, 5), (2, 4, 5), (1, 2, 3, 5)])
def test_a_mask_that_does_not_cover_the_scores_is_rejected(shape: tuple[int, ...]) -> None:
    mask = torch.ones(shape, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"mask is of shape .* allowed: \(\.\.\., T, S\) = \(2, 3, 5\)"):
        masked_softmax(torch.zeros(2, 3, 5), mask)


def test_the_error_for_a_short_padding_mask_gives_the_right_size() -> None:
    with pytest.raises(ValueError, match=r"padding_mask\(lengths, 5\) is as long as the batch"):
        masked_softmax(torch.zeros(2, 3, 5), padding_mask([4, 2]))


def test_the_error_for_a_mask_with_two_axes_shows_both_solutions() -> None:
    with pytest.raises(ValueError, match=r"mask\[None\] for a \(T, S\) mask, mask\[:, None\] for a \(B, S\)"):
        masked_softmax(torch.zeros(3, 3, 3), torch.ones(3, 3, dtype=torch.bool))
