"""Sets of handwritten digits, one of which does not belong."""

from typing import Literal

import torch
from pydantic import Field
from torch import Generator, Tensor

from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, DataConfig, ExampleCount, SequenceData
from limelight.data.images.digits import load_digits
from limelight.data.ragged import Ragged
from limelight.data.text.symbols import Answers, Vectors
from limelight.memory import check_memory
from limelight.randomness import generator

IMAGE_SHARES = (0.7, 0.15, 0.15)  # of the images in each split: no image occurs in two splits


class OddOneOut(DataConfig):
    """Sets of images of the same handwritten digit, except for one image: find it.

    The images are the 1,797 digits of scikit-learn, as vectors of 64 pixels.
    """

    kind: Literal["odd-one-out"] = Field(
        "odd-one-out", description="find the digit that differs from the rest"
    )
    items: int = Field(10, ge=3, le=100, description="images per set")
    train: ExampleCount = Field(20_000, description="number of training sets")
    validation: ExampleCount = Field(1_000, description="number of validation sets")
    test: ExampleCount = Field(5_000, description="number of test sets")

    def load(self, seed: int) -> SequenceData:
        """Divide the images between the splits and sample the sets of each split."""
        images_NYX, digits = load_digits("odd-one-out")
        images_ND = images_NYX.flatten(1) / 16
        count = self.train + self.validation + self.test
        needed = 2.0 * count * self.items * images_ND[0].nbytes
        check_memory(needed, "lower task.data.train, task.data.validation or task.data.test")
        order = torch.randperm(len(digits), generator=generator(seed, "images"))
        sizes = [round(share * len(digits)) for share in IMAGE_SHARES[:-1]]
        indices = order.split([*sizes, len(digits) - sum(sizes)])
        splits = {}
        for name, index in zip(SPLITS, indices, strict=True):
            rng = generator(seed, f"{name} sets")
            selected_NT, odd_N = self._sample(digits[index], self.at_most(getattr(self, name)), rng)
            splits[name] = Examples(Ragged.from_tensor(images_ND[index][selected_NT]), odd_N)
        return SequenceData(splits, Vectors(features=images_ND.shape[1]), Answers(kind="which"))

    def _sample(self, digits: Tensor, count: int, rng: Generator) -> tuple[Tensor, Tensor]:
        """(images) -> (N, T), (N)

        For each set the indices of its images, and the position of the odd one.
        """
        common_N = torch.randint(10, (count,), generator=rng)
        other_N = (common_N + torch.randint(1, 10, (count,), generator=rng)) % 10
        odd_N = torch.randint(self.items, (count,), generator=rng)
        digit_NT = common_N.unsqueeze(1).repeat(1, self.items)
        digit_NT[torch.arange(count), odd_N] = other_N
        # A random image of each digit: a random position within its range of the images sorted by digit.
        order = digits.argsort(stable=True)
        count_L = digits.bincount(minlength=10)
        start_L = count_L.cumsum(0) - count_L
        offset_NT = torch.rand(digit_NT.shape, generator=rng) * count_L[digit_NT]
        return order[start_L[digit_NT] + offset_NT.long()], odd_N
