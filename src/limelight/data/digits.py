"""Sets of real digits, of which one does not belong."""

from typing import Literal

import torch
from pydantic import Field
from torch import Generator, Tensor

from limelight.config import Config
from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.readers import Answers, Vectors
from limelight.errors import WrongInput
from limelight.randomness import generator

IMAGE_SHARES = (0.7, 0.15, 0.15)  # of the images: a test set is made of images that were never trained on


class OddOneOut(Config):
    """Sets of `items` images of one digit, but one is of another: which? 1,797 drawn by hand, 8×8 pixels."""

    kind: Literal["odd-one-out"] = "odd-one-out"
    items: int = Field(10, ge=3, le=100)
    train: int = Field(20_000, ge=1)
    validation: int = Field(1_000, ge=1)
    test: int = Field(5_000, ge=1)

    def load(self, seed: int) -> SequenceData:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            hint = "pip install -c constraints.txt '.[demo]'"
            raise WrongInput(
                f"odd-one-out draws its digits from scikit-learn, which is not there: {hint}"
            ) from None
        pixels, digits = (torch.as_tensor(array) for array in load_digits(return_X_y=True))
        images_ID = pixels.float() / 16
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
