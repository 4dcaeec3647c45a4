"""1,797 handwritten digits, from scikit-learn."""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config
from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.data.splits import check_shares
from limelight.errors import WrongInput


def load_digits(who: str) -> tuple[Tensor, Tensor]:
    """-> (I, Y, X), (I)

    From 0 to 16, and what they are.
    """
    try:
        from sklearn import datasets
    except ImportError:
        hint = "pip install -c constraints.txt '.[demo]'"
        raise WrongInput(f"{who} takes its digits from scikit-learn, which is not there: {hint}") from None
    pixels, digits = (torch.as_tensor(array) for array in datasets.load_digits(return_X_y=True))
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
        images_IYX, digits = load_digits("digits")
        pixels = (images_IYX * (255 / 16)).round().to(torch.uint8).unsqueeze(1)
        shares = {"validation": self.validation} | ({"test": self.test} if self.test else {})
        splits = hold_out_images({"train": Images(pixels, digits)}, shares, seed)
        return ImageData(splits, tuple(map(str, range(10))))
