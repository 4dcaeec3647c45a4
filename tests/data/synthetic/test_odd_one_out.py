"""Sets of digits of which one differs."""

import pytest
import torch
from sklearn.datasets import load_digits
from support import must_fail
from torch import Tensor

from limelight.data.synthetic.odd_one_out import OddOneOut
from limelight.data.text.symbols import Vectors
from limelight.errors import WrongInput

DATA = OddOneOut(items=7, train=211, validation=53, test=101).load(seed=1)


def images_of(split: str) -> torch.Tensor:
    return DATA.splits[split].inputs.values


def digits_of(images: torch.Tensor) -> torch.Tensor:
    """The digit of each image, found by comparing it with all images."""
    pixels, digits = load_digits(return_X_y=True)
    known = {
        tuple((row / 16).tolist()): int(digit)
        for row, digit in zip(torch.tensor(pixels).float(), digits, strict=True)
    }
    return torch.tensor([known[tuple(image.tolist())] for image in images])


def check_sets(split: str, odd: torch.Tensor) -> None:
    sets = digits_of(images_of(split)).view(-1, 7)
    for row, place in zip(sets.tolist(), odd.tolist(), strict=True):
        other = row.pop(place)
        assert len(set(row)) == 1
        assert other not in row


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_one_image_of_each_set_differs_and_the_target_is_its_position(split: str) -> None:
    odd = DATA.splits[split].targets
    assert isinstance(odd, Tensor)
    check_sets(split, odd)
    assert len(odd.unique()) == 7
    must_fail(check_sets, split, (odd + 1) % 7)


def test_no_test_image_occurs_in_training() -> None:
    seen = {tuple(image.tolist()) for image in images_of("train")}
    held_out = {tuple(image.tolist()) for image in images_of("test")}
    assert len(held_out) > 100
    assert not seen & held_out


@pytest.mark.parametrize(
    "line", ["", "1 2", "[[1, 2]]", "[1]", "[]", "{}", '[["a"]]', "[[1e999]]", "[" * 10_000]
)
def test_a_line_that_is_not_a_list_of_vectors_is_an_error(line: str) -> None:
    with pytest.raises(WrongInput):
        Vectors(features=1).encode(line)


def test_a_line_of_vectors_is_encoded() -> None:
    assert Vectors(features=2).encode("[[1, 2.5], [3, 4]]").tolist() == [[1, 2.5], [3, 4]]
