"""1,797 handwritten digits, from scikit-learn."""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.data.dataset import DataConfig
from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.data.splits import check_shares
from limelight.errors import WrongInput


def load_digits(name: str) -> tuple[Tensor, Tensor]:
    """-> (N, Y, X), (N)

    Pixels from 0 to 16, and the digits. `name` is the data set that error messages refer to.
    """
    try:
        from sklearn import datasets
    except ImportError:
        hint = "pip install scikit-learn"
        raise WrongInput(f"{name} needs scikit-learn, which is not installed: {hint}") from None
    pixels, digits = (torch.as_tensor(array) for array in datasets.load_digits(return_X_y=True))
    return pixels.float().unflatten(1, (8, 8)), digits.long()


class Digits(DataConfig):
    """1,797 handwritten digits of 8×8 pixels, from scikit-learn."""

    kind: Literal["digits"] = Field("digits", description="handwritten digits from scikit-learn")
    validation: float = Field(0.1, gt=0, lt=1, description="share of the images held out for validation")
    test: float = Field(
        0.2, ge=0, lt=1, description="share of the images held out for testing; 0: no test split"
    )

    @model_validator(mode="after")
    def _leaves_training_examples(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int) -> ImageData:
        """Load the images and hold out validation and test splits."""
        images_NYX, digits = load_digits("digits")
        pixels_NCYX = (images_NYX * (255 / 16)).round().to(torch.uint8).unsqueeze(1)
        shares = {"validation": self.validation} | ({"test": self.test} if self.test else {})
        found = Images(pixels_NCYX, digits).choose(self.limit, seed)
        splits = hold_out_images({"train": found}, shares, seed)
        return ImageData(splits, tuple(map(str, range(10))))
