"""Sets of handwritten digits, one of which does not belong."""

from typing import Literal

import torch
from pydantic import Field
from torch import Generator, Tensor

from limelight.config import Config
from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, ExampleCount, SequenceData
from limelight.data.images.digits import load_digits
from limelight.data.ragged import Ragged
from limelight.data.text.symbols import Answers, Vectors
from limelight.memory import check_memory
from limelight.randomness import generator

IMAGE_SHARES = (0.7, 0.15, 0.15)  # of the images: a test set is made of images that were never trained on


class OddOneOut(Config):
    """Sets of `items` images of one digit, but one is of another: which? 1,797 drawn by hand, 8×8 pixels."""

    kind: Literal["odd-one-out"] = "odd-one-out"
    items: int = Field(10, ge=3, le=100)
    train: ExampleCount = 20_000
    validation: ExampleCount = 1_000
    test: ExampleCount = 5_000

    def load(self, seed: int) -> SequenceData:
        images_IYX, digits = load_digits("odd-one-out")
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
