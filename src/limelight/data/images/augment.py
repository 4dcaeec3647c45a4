"""Random augmentation of image batches."""

from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config


class AugmentConfig(Config):
    """Augmentation of training images; `off` instead of settings disables all of it.

    All random numbers come from torch's global generator.
    """

    crop: int = Field(
        0, ge=0, le=1_000, description="random crops of the original size after padding by this many pixels"
    )
    padding: Literal["zeros", "reflect"] = Field(
        "zeros", description="padding of random crops: zeros, or reflected pixels"
    )
    flip: bool = Field(False, description="flip images horizontally with probability 0.5")
    brightness: float = Field(
        0.0, ge=0, lt=1, description="multiply pixels by a random factor in [1 - brightness, 1 + brightness]"
    )
    contrast: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="multiply differences from the image's mean by a factor in [1 - contrast, 1 + contrast]",
    )
    erase: float = Field(
        0.0, ge=0, le=1, description="probability that a random rectangle of an image is replaced by noise"
    )
    mixup: float = Field(
        0.0, ge=0, le=1, description="probability of mixup for a batch: weighted sums of two images"
    )
    cutmix: float = Field(
        0.0, ge=0, le=1, description="probability of cutmix for a batch: rectangles pasted from other images"
    )

    @model_validator(mode="before")
    @classmethod
    def _off(cls, given: Any) -> Any:
        return {} if given in ("off", "none", False) else given

    @model_validator(mode="after")
    def _probabilities_add_up(self) -> Self:
        if self.mixup + self.cutmix > 1:
            raise ValueError(f"mixup + cutmix is {self.mixup + self.cutmix:g}; allowed: at most 1")
        return self


def augment(images: Tensor, config: AugmentConfig) -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    Random crops and flips, of images as bytes.
    """
    if config.crop:
        images = crop(images, config.crop, config.padding)
    if config.flip:
        flipped_B111 = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
        images = torch.where(flipped_B111, images.flip(-1), images)
    return images


def recolour(images: Tensor, config: AugmentConfig) -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    Random brightness and contrast, of images with values from 0 to 1.
    """
    if config.brightness:
        images = images * _factors(images, config.brightness)
    if config.contrast:
        mean_B111 = images.mean((1, 2, 3), keepdim=True)
        images = torch.lerp(mean_B111, images, _factors(images, config.contrast))
    return images


def crop(images: Tensor, padding: int, mode: str = "zeros") -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    A random window of the original size from each padded image. All windows of all images are a view of the
    padded batch, from which one per image is selected.
    """
    rows, columns = images.shape[2:]
    if mode == "reflect":
        padded_BCYX = F.pad(images.float(), (padding,) * 4, mode="reflect").to(images.dtype)
    else:
        padded_BCYX = F.pad(images, (padding,) * 4)
    windows_BCyxYX = padded_BCYX.unfold(2, rows, 1).unfold(3, columns, 1)
    batch = torch.arange(len(images), device=images.device)
    down_B, right_B = torch.randint(2 * padding + 1, (2, len(images)), device=images.device)
    return windows_BCyxYX[batch, :, down_B, right_B]


def erase(images: Tensor, probability: float) -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    Replace a random rectangle by noise in some of the images (random erasing, Zhong et al. 2020). Its sides
    are at most a third of those of the image.
    """
    size = images.new_tensor(images.shape[2:])
    inside_BYX = _rectangles(len(images), images.shape[2:], torch.rand(len(images), 2) * size.cpu() / 3 + 1)
    inside_BYX &= torch.rand(len(images), 1, 1) < probability
    return torch.where(inside_BYX.unsqueeze(1).to(images.device), torch.randn_like(images), images)


def mix(images: Tensor, config: AugmentConfig) -> tuple[Tensor, Tensor, float]:
    """(B, C, Y, X) -> (B, C, Y, X), (B), ()

    The mixed images, the index of the other image of each mixture, and the weight of the first image. Mixup
    (Zhang et al. 2018) computes weighted sums; cutmix (Yun et al. 2019) pastes a rectangle of the other
    image. The weight is uniformly distributed.
    """
    other_B = torch.randperm(len(images), device=images.device)
    draw, weight = torch.rand(2).tolist()
    if draw < config.mixup:
        return torch.lerp(images.index_select(0, other_B), images, weight), other_B, weight
    if draw < config.mixup + config.cutmix:
        rows, columns = images.shape[2:]
        sides = torch.tensor([[rows, columns]]) * (1 - weight) ** 0.5
        inside_1YX = _rectangles(1, images.shape[2:], sides).to(images.device)
        mixed_BCYX = torch.where(inside_1YX.unsqueeze(1), images.index_select(0, other_B), images)
        return mixed_BCYX, other_B, 1 - float(inside_1YX.float().mean())
    return images, other_B, 1.0


def _rectangles(count: int, size: torch.Size, sides: Tensor) -> Tensor:
    """(B, 2) -> (B, Y, X)

    True inside rectangles with these sides and random centres.
    """
    inside = []
    for axis, length in enumerate(size):
        centre_B1 = torch.rand(count, 1) * length
        distance_Ba = (torch.arange(length) + 0.5 - centre_B1).abs()
        inside.append(distance_Ba <= sides[:, axis : axis + 1] / 2)
    return inside[0].unsqueeze(2) & inside[1].unsqueeze(1)


def _factors(images: Tensor, most: float) -> Tensor:
    """(B, C, Y, X) -> (B, 1, 1, 1)

    Random factors between 1 - most and 1 + most.
    """
    return 1 + most * (2 * torch.rand(len(images), 1, 1, 1, device=images.device) - 1)
