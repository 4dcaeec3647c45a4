"""Splits of images: each image is in one split, and each class is in training."""

import pytest
import torch

from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.errors import WrongInput


def numbered(labels: list[int]) -> Images:
    return Images(torch.arange(len(labels), dtype=torch.uint8).view(-1, 1, 1, 1), torch.tensor(labels))


def test_every_image_is_in_one_split_and_every_class_in_training() -> None:
    labels = [0] * 100 + [1] * 50 + [2] * 3 + [3]
    splits = hold_out_images({"train": numbered(labels)}, {"validation": 0.1, "test": 0.2}, seed=1)
    together = torch.cat([split.pixels.flatten() for split in splits.values()])
    assert sorted(together.tolist()) == list(range(154))
    for split in splits.values():
        assert split.labels.tolist() == [labels[i] for i in split.pixels.flatten().tolist()]
    assert [len(split) for split in splits.values()] == [108, 15, 31]
    assert set(splits["train"].labels.tolist()) == {0, 1, 2, 3}
    assert splits["validation"].labels.bincount().tolist()[:2] == [10, 5]


def test_shares_of_small_classes_add_up() -> None:
    labels = [i // 3 for i in range(60)]
    splits = hold_out_images({"train": numbered(labels)}, {"validation": 0.1}, seed=1)
    assert len(splits["validation"]) == 6


def test_the_same_seed_holds_out_the_same_images() -> None:
    digests = [
        ImageData(hold_out_images({"train": numbered([0, 1] * 40)}, {"test": 0.5}, seed), ("a", "b")).digest
        for seed in (1, 1, 2)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_an_existing_split_does_not_change() -> None:
    given = {"train": numbered([0, 1] * 20), "test": numbered([1, 0, 1])}
    splits = hold_out_images(given, {"validation": 0.1}, seed=1)
    assert list(splits) == ["train", "validation", "test"]
    assert splits["test"] is given["test"]


def test_too_few_images_for_a_split_are_an_error() -> None:
    with pytest.raises(WrongInput, match=r"too few images \(2\): no image is left for the validation split"):
        hold_out_images({"train": numbered([0, 1])}, {"validation": 0.5}, seed=1)
