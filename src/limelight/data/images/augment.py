"""Images that are changed a little, a whole batch at once: a model sees more of them than there are."""

from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config


class AugmentConfig(Config):
    """What happens to training images, and to no others. All of it is drawn from torch's generator."""

    crop: int = Field(0, ge=0, le=1_000)  # pixels of padding, out of which a window of the old size is cut
    padding: Literal["zeros", "reflect"] = "zeros"
    flip: bool = False  # left and right, every other time
    brightness: float = Field(0.0, ge=0, lt=1)  # a factor up to so much more or less
    contrast: float = Field(0.0, ge=0, lt=1)  # the same, of the distance from the image's mean
    erase: float = Field(0.0, ge=0, le=1)  # how often a rectangle becomes noise
    mixup: float = Field(0.0, ge=0, le=1)  # how often a batch is mixed with itself: pictures laid over others
    cutmix: float = Field(0.0, ge=0, le=1)  # how often a window of it comes from others

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if self.mixup + self.cutmix > 1:
            raise ValueError(f"mixup + cutmix is {self.mixup + self.cutmix:g}; allowed: at most 1")
        return self


def augment(images: Tensor, config: AugmentConfig) -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    Of bytes: what moves pixels.
    """
    if config.crop:
        images = crop(images, config.crop, config.padding)
    if config.flip:
        turned_B111 = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
        images = torch.where(turned_B111, images.flip(-1), images)
    return images


def recolour(images: Tensor, config: AugmentConfig) -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    Of numbers from 0 to 1: what changes their values.
    """
    if config.brightness:
        images = images * _factors(images, config.brightness)
    if config.contrast:
        mean_B111 = images.mean((1, 2, 3), keepdim=True)
        images = torch.lerp(mean_B111, images, _factors(images, config.contrast))
    return images


def crop(images: Tensor, padding: int, mode: str = "zeros") -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    A window out of each padded image, anywhere. All windows of all images are one view of the padded batch,
    from which one is taken each.
    """
    rows, columns = images.shape[2:]
    if mode == "reflect":
        padded = F.pad(images.float(), (padding,) * 4, mode="reflect").to(images.dtype)
    else:
        padded = F.pad(images, (padding,) * 4)
    windows_BCyxYX = padded.unfold(2, rows, 1).unfold(3, columns, 1)
    batch = torch.arange(len(images), device=images.device)
    down_B, right_B = torch.randint(2 * padding + 1, (2, len(images)), device=images.device)
    return windows_BCyxYX[batch, :, down_B, right_B]


def erase(images: Tensor, often: float) -> Tensor:
    """(B, C, Y, X) -> (B, C, Y, X)

    In so many of the images a rectangle of a third of the sides or less becomes noise (Zhong et al. 2020).
    """
    size = images.new_tensor(images.shape[2:])
    inside_BYX = _rectangles(len(images), images.shape[2:], torch.rand(len(images), 2) * size.cpu() / 3 + 1)
    inside_BYX &= torch.rand(len(images), 1, 1) < often
    return torch.where(inside_BYX.unsqueeze(1).to(images.device), torch.randn_like(images), images)


def mix(images: Tensor, config: AugmentConfig) -> tuple[Tensor, Tensor, float]:
    """(B, C, Y, X) -> (B, C, Y, X), (B), ()

    The batch mixed with itself, which image was mixed into each, and the share of the first in what came
    out: mixup (Zhang et al. 2018) lays one over the other, cutmix (Yun et al. 2019) puts a window of one
    into the other. The share is drawn evenly.
    """
    other_B = torch.randperm(len(images), device=images.device)
    chance, share = torch.rand(2).tolist()
    if chance < config.mixup:
        return torch.lerp(images.index_select(0, other_B), images, share), other_B, share
    if chance < config.mixup + config.cutmix:
        rows, columns = images.shape[2:]
        sides = torch.tensor([[rows, columns]]) * (1 - share) ** 0.5
        inside_1YX = _rectangles(1, images.shape[2:], sides).to(images.device)
        mixed = torch.where(inside_1YX.unsqueeze(1), images.index_select(0, other_B), images)
        return mixed, other_B, 1 - float(inside_1YX.float().mean())
    return images, other_B, 1.0


def _rectangles(count: int, size: torch.Size, sides: Tensor) -> Tensor:
    """(n, 2) -> (n, Y, X)

    True inside rectangles of these sides whose middles are anywhere.
    """
    inside = []
    for axis, length in enumerate(size):
        middle_n1 = torch.rand(count, 1) * length
        distance = (torch.arange(length) + 0.5 - middle_n1).abs()
        inside.append(distance <= sides[:, axis : axis + 1] / 2)
    return inside[0].unsqueeze(2) & inside[1].unsqueeze(1)


def _factors(images: Tensor, most: float) -> Tensor:
    """-> (B, 1, 1, 1), around 1"""
    return 1 + most * (2 * torch.rand(len(images), 1, 1, 1, device=images.device) - 1)
