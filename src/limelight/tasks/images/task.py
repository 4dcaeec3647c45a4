"""What an image shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from limelight.config import Config, read_json
from limelight.data.batching import Batch
from limelight.data.images.augment import AugmentConfig, augment, erase, mix, recolour
from limelight.data.images.cifar10 import Cifar10
from limelight.data.images.decode import read_picture
from limelight.data.images.digits import Digits
from limelight.data.images.image_data import ImageData
from limelight.data.images.image_folder import ImageFiles
from limelight.errors import WrongInput, wrong
from limelight.models.sizes import Sizes
from limelight.tasks.examples import ExamplesTask
from limelight.tasks.task import Answer, Goal, Scores

MEASURED = 10_000  # images, for the mean and the deviation of their pixels: more say the same


class ImagesConfig(Config):
    kind: Literal["images"] = "images"
    data: Annotated[Digits | Cifar10 | ImageFiles, Field(discriminator="kind")]
    augment: AugmentConfig = AugmentConfig()

    def load(self, seed: int) -> "ClassifyImages":
        return ClassifyImages.of(self.data.load(seed), self.augment)

    def restore(self, state: str) -> "ClassifyImages":
        return ClassifyImages(read_json(ImagesState, state, "data.json"), self.augment)


class ImagesState(Config):
    """What stays of the data when only prediction is wanted."""

    names: tuple[str, ...] = Field(min_length=1)
    image: tuple[PositiveInt, PositiveInt, PositiveInt]
    mean: tuple[float, ...]  # of each channel, over training, from 0 to 1
    deviation: tuple[PositiveFloat, ...]

    @model_validator(mode="after")
    def _one_per_channel(self) -> Self:
        if not len(self.mean) == len(self.deviation) == self.image[0]:
            raise ValueError(f"mean and deviation are not of {self.image[0]} channels")
        return self


class ClassifyImages(ExamplesTask[ImageData]):
    """Cross-entropy of the class. Training images are augmented; all are normalised as training is."""

    unit = "images"

    def __init__(self, state: ImagesState, augment: AugmentConfig, data: ImageData | None = None) -> None:
        super().__init__(data)
        self._state, self._augment = state, augment
        self.names = state.names

    @classmethod
    def of(cls, data: ImageData, augment: AugmentConfig) -> "ClassifyImages":
        pixels = data.splits["train"].pixels
        channels, rows, columns = pixels.shape[1:]
        if augment.padding == "reflect" and augment.crop >= min(rows, columns):
            allowed = f"less than {min(rows, columns)} with padding that reflects"
            raise wrong("task.augment.crop", augment.crop, allowed)
        mean, deviation = _measure(pixels)
        state = ImagesState(
            names=data.names,
            image=(channels, rows, columns),
            mean=tuple(mean.tolist()),
            deviation=tuple(deviation.clamp(min=1e-3).tolist()),
        )
        return cls(state, augment, data)

    @property
    def goal(self) -> Goal:
        return Goal("accuracy", 1.0)

    @property
    def sizes(self) -> Sizes:
        return Sizes(outputs=len(self.names), image=self._state.image)

    @property
    def state(self) -> str:
        return self._state.model_dump_json()

    def lengths(self, split: str) -> Tensor:
        return torch.ones(len(self.examples(split)), dtype=torch.long)

    def predictions(self, batch: Batch) -> int:
        return len(batch)

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        return (self.normalise(batch.inputs.float() / 255),)

    def blank(self, count: int) -> Batch:
        pixels = torch.zeros(count, *self._state.image, dtype=torch.uint8)
        return Batch(pixels, torch.zeros(count, dtype=torch.long), torch.arange(count))

    def normalise(self, images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, C, Y, X)"""
        mean, deviation = (
            images.new_tensor(values).view(-1, 1, 1) for values in (self._state.mean, self._state.deviation)
        )
        return (images - mean) / deviation

    def score(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        images, other_B, share = self._seen(batch, model.training)
        logits_BL = model(images)
        loss = share * _loss(logits_BL, batch.targets, smoothing)
        if other_B is not None and share < 1:
            loss = loss + (1 - share) * _loss(logits_BL, batch.targets.index_select(0, other_B), smoothing)
        right = (logits_BL.argmax(-1) == batch.targets).sum()
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def _seen(self, batch: Batch, training: bool) -> tuple[Tensor, Tensor | None, float]:
        """(B, C, Y, X) of numbers, which other image is mixed into each, and the share that is not of it"""
        config = self._augment if training else AugmentConfig()
        images = self.normalise(recolour(augment(batch.inputs, config).float() / 255, config))
        if config.erase:
            images = erase(images, config.erase)
        return mix(images, config) if config.mixup or config.cutmix else (images, None, 1.0)

    def sample(self, split: str) -> str:
        return ""  # none can be typed

    def predict(
        self, model: nn.Module, inputs: Sequence[str | Path | Tensor], *, first: int = 1
    ) -> list[Answer]:
        """One answer an image: the name of a file, or bytes (C, Y, X) of any size that patches divide."""
        device = next(model.eval().parameters()).device
        answers = []
        for number, one in enumerate(inputs, first):
            pixels = self.read(one, number).unsqueeze(0).to(device)
            probability, best = self.probabilities(model, pixels)[0].max(-1)
            answers.append(Answer(self.names[int(best)], float(probability)))
        return answers

    @torch.no_grad()
    def probabilities(self, model: nn.Module, pixels: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, L)"""
        return model.eval()(self.normalise(pixels.float() / 255)).float().softmax(-1).cpu()

    def read(self, one: str | Path | bytes | Tensor, number: int = 1) -> Tensor:
        """-> (C, Y, X), of the name of a file, its bytes, or pixels"""
        channels, rows, columns = self._state.image
        if isinstance(one, bytes):
            return read_picture(one, (rows, columns), channels)
        if not isinstance(one, Tensor):
            if not str(one).strip():
                raise WrongInput(f"input {number} is empty; allowed: the name of an image file")
            return read_picture(Path(one), (rows, columns), channels, str(one))
        if one.dtype != torch.uint8 or one.dim() != 3 or one.shape[0] != channels:
            what = f"{tuple(one.shape)} of {one.dtype}"
            raise WrongInput(f"input {number} is {what}; allowed: ({channels}, Y, X) of torch.uint8")
        return one


def _measure(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """(N, C, Y, X) -> (C), (C)

    Mean and deviation of each channel, from 0 to 1; a few images at a time: numbers take eight times the
    room of bytes.
    """
    some = pixels[:: max(1, len(pixels) // MEASURED)]
    sums_2C = torch.zeros(2, pixels.shape[1], dtype=torch.float64)
    for piece in some.split(100):
        values = piece.double() / 255
        sums_2C += torch.stack((values.sum((0, 2, 3)), values.square().sum((0, 2, 3))))
    mean_C, squares_C = sums_2C * some.shape[1] / some.numel()
    return mean_C, (squares_C - mean_C.square()).clamp(min=0).sqrt()


def _loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
