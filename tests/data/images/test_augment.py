"""Augmentation of image batches."""

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from limelight.config import read
from limelight.data.images.augment import AugmentConfig, augment, crop, erase, mix, recolour


def numbered(count: int, channels: int = 2, rows: int = 7, columns: int = 5) -> Tensor:
    """Images whose pixels are distinct and not zero."""
    one = 1 + torch.arange(channels * rows * columns, dtype=torch.uint8).view(channels, rows, columns)
    return one.expand(count, -1, -1, -1).clone()


def windows(image: Tensor, padding: int) -> list[Tensor]:
    """All windows of one padded image, one by one."""
    channels, rows, columns = image.shape
    padded = image.new_zeros(channels, rows + 2 * padding, columns + 2 * padding)
    padded[:, padding:-padding, padding:-padding] = image
    places = range(2 * padding + 1)
    return [padded[:, y : y + rows, x : x + columns] for y in places for x in places]


def test_a_crop_is_a_uniformly_random_window_of_the_padded_image() -> None:
    torch.manual_seed(1)
    images = numbered(9_000)
    cut = crop(images, 1)
    counts = torch.tensor(
        [int((cut == window).all(-1).all(-1).all(-1).sum()) for window in windows(images[0], 1)]
    )
    assert int(counts.sum()) == 9_000
    assert (counts - 1_000).abs().max() < 6 * (9_000 * 8 / 81) ** 0.5


def test_reflection_padding_adds_no_zeros() -> None:
    assert (crop(numbered(50), 2, "reflect") > 0).all()
    assert (crop(numbered(50), 2) == 0).any()


def test_half_of_the_images_are_flipped() -> None:
    torch.manual_seed(1)
    images = numbered(4_000)
    turned = augment(images, AugmentConfig(flip=True))
    same = (turned == images).all(-1).all(-1).all(-1)
    mirrored = (turned == images.flip(-1)).all(-1).all(-1).all(-1)
    assert (same ^ mirrored).all()
    assert abs(int(same.sum()) - 2_000) < 6 * 1_000**0.5


def test_the_default_config_changes_nothing() -> None:
    images = numbered(3)
    assert augment(images, AugmentConfig()) is images
    assert recolour(images, AugmentConfig()) is images


def test_brightness_is_a_factor_and_contrast_keeps_the_mean() -> None:
    torch.manual_seed(1)
    images = torch.rand(500, 3, 5, 7)
    factors = recolour(images, AugmentConfig(brightness=0.4)) / images
    assert factors.flatten(1).std(1).max() < 1e-5
    assert 0.6 <= factors.min() < 0.65 < 1.35 < factors.max() <= 1.4
    paler = recolour(images, AugmentConfig(contrast=0.4))
    torch.testing.assert_close(paler.mean((1, 2, 3)), images.mean((1, 2, 3)))
    spread = paler.flatten(1).std(1) / images.flatten(1).std(1)
    assert 0.59 < spread.min() < 0.65 < 1.35 < spread.max() < 1.41


def test_erasing_replaces_one_rectangle_of_some_images_by_noise() -> None:
    torch.manual_seed(1)
    images = torch.full((2_000, 2, 13, 17), 100.0)
    changed = (erase(images, 0.25) != images).any(1)
    often = changed.flatten(1).any(1)
    assert (
        abs(int(often.sum()) - 500) < 6 * (2_000 * 0.25 * 0.75) ** 0.5 + 30
    )  # some rectangles are outside the image
    for one in changed[often][:50]:
        rows, columns = one.any(1).nonzero().flatten(), one.any(0).nonzero().flatten()
        assert one[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].all()
        assert len(rows) <= 6
        assert len(columns) <= 7


@pytest.mark.parametrize("way", ["mixup", "cutmix"])
def test_the_returned_weight_is_that_of_the_mixture(way: str) -> None:
    torch.manual_seed(3)
    images = torch.zeros(40, 1, 32, 32)
    images[0] = 1.0
    for _ in range(20):
        mixed, other, share = mix(images, read(AugmentConfig, {way: 1.0}))
        place = int((other == 0).nonzero())
        assert 0 <= share <= 1
        if place:
            assert float(mixed[0].mean()) == pytest.approx(share, abs=1e-5)
            assert float(mixed[place].mean()) == pytest.approx(1 - share, abs=1e-5)
        if way == "cutmix":
            assert set(mixed.unique().tolist()) <= {0.0, 1.0}


def test_mixing_happens_with_the_given_probability() -> None:
    torch.manual_seed(1)
    shares = [mix(torch.rand(2, 1, 8, 8), AugmentConfig(mixup=0.2, cutmix=0.3))[2] for _ in range(2_000)]
    mixed = sum(share < 1 for share in shares)
    assert abs(mixed - 1_000) < 6 * 500**0.5 + 100  # a rectangle may be empty


def test_mixing_probabilities_above_one_are_an_error() -> None:
    with pytest.raises(ValidationError, match="at most 1"):
        AugmentConfig(mixup=0.6, cutmix=0.6)


def test_the_same_seed_gives_the_same_augmentation() -> None:
    config = AugmentConfig(crop=2, flip=True)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return augment(numbered(30), config)

    assert drawn(1).equal(drawn(1))
    assert not drawn(1).equal(drawn(2))
