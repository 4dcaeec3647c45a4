"""Real digits: each by itself, or sets of which one does not belong."""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Generator, Tensor

from limelight.config import Config
from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, ExampleCount, SequenceData
from limelight.data.images import ImageData, Images, hold_out_images
from limelight.data.ragged import Ragged
from limelight.data.readers import Answers, Vectors
from limelight.data.splits import check_shares
from limelight.errors import WrongInput
from limelight.memory import check_memory
from limelight.randomness import generator

IMAGE_SHARES = (0.7, 0.15, 0.15)  # of the images: a test set is made of images that were never trained on


def _load_digits(who: str) -> tuple[Tensor, Tensor]:
    """-> (I, Y, X), (I)

    From 0 to 16, and what they are.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        hint = "pip install -c constraints.txt '.[demo]'"
        raise WrongInput(f"{who} takes its digits from scikit-learn, which is not there: {hint}") from None
    pixels, digits = (torch.as_tensor(array) for array in load_digits(return_X_y=True))
    return pixels.float().unflatten(1, (8, 8)), digits.long()


class Digits(Config):
    """1,797 digits drawn by hand, 8×8 pixels of 17 greys."""

    kind: Literal["digits"] = "digits"
    validation: float = Field(0.1, gt=0, lt=1)
    test: float = Field(0.2, ge=0, lt=1)

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int) -> ImageData:
        images_IYX, digits = _load_digits("digits")
        pixels = (images_IYX * (255 / 16)).round().to(torch.uint8).unsqueeze(1)
        shares = {"validation": self.validation} | ({"test": self.test} if self.test else {})
        splits = hold_out_images({"train": Images(pixels, digits)}, shares, seed)
        return ImageData(splits, tuple(map(str, range(10))))


class OddOneOut(Config):
    """Sets of `items` images of one digit, but one is of another: which? 1,797 drawn by hand, 8×8 pixels."""

    kind: Literal["odd-one-out"] = "odd-one-out"
    items: int = Field(10, ge=3, le=100)
    train: ExampleCount = 20_000
    validation: ExampleCount = 1_000
    test: ExampleCount = 5_000

    def load(self, seed: int) -> SequenceData:
        images_IYX, digits = _load_digits("odd-one-out")
        images_ID = images_IYX.flatten(1) / 16
        count = self.train + self.validation + self.test
        needed = 2.0 * count * self.items * images_ID[0].nbytes
        check_memory(needed, "lower task.data.train, task.data.validation or task.data.test")
        order = torch.randperm(len(digits), generator=generator(seed, "images"))
        cuts = [round(share * len(digits)) for share in IMAGE_SHARES[:-1]]
        shares = order.split([*cuts, len(digits) - sum(cuts)])
        splits = {}
        for name, share in zip(SPLITS, shares, strict=True):
            picked, odd = self._draw(digits[share], getattr(self, name), generator(seed, f"{name} sets"))
            splits[name] = Examples(Ragged.even(images_ID[share][picked]), odd)
        return SequenceData(splits, Vectors(features=images_ID.shape[1]), Answers(kind="which"))

    def _draw(self, digits: Tensor, count: int, draw: Generator) -> tuple[Tensor, Tensor]:
        """(I) -> (N, T), (N)

        For each set the numbers of its images, and which of them is odd.
        """
        common_N = torch.randint(10, (count,), generator=draw)
        other_N = (common_N + torch.randint(1, 10, (count,), generator=draw)) % 10
        odd_N = torch.randint(self.items, (count,), generator=draw)
        wanted_NT = common_N.unsqueeze(1).repeat(1, self.items)
        wanted_NT[torch.arange(count), odd_N] = other_N
        # Any image of the digit that is wanted: the images sorted by digit, and one number within.
        order = digits.argsort(stable=True)
        there_L = digits.bincount(minlength=10)
        begin_L = there_L.cumsum(0) - there_L
        within_NT = torch.rand(wanted_NT.shape, generator=draw) * there_L[wanted_NT]
        return order[begin_L[wanted_NT] + within_NT.long()], odd_N
