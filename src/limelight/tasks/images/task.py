"""Image classification."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from limelight.config import Config, read_json
from limelight.data.batching import Batch
from limelight.data.images.augment import AugmentConfig, augment, erase, mix, recolour
from limelight.data.images.cifar10 import Cifar10
from limelight.data.images.decode import COVER, Scaling, read_image
from limelight.data.images.digits import Digits
from limelight.data.images.image_data import ImageData, Images
from limelight.data.images.image_folder import ImageFiles
from limelight.data.splits import count_classes
from limelight.errors import WrongInput, wrong
from limelight.models.sizes import Sizes
from limelight.models.vit import ViT, ViTConfig
from limelight.tasks.images.figures import draw_figures
from limelight.tasks.metrics import Judgement, judge_classes
from limelight.tasks.task import (
    Answer,
    Example,
    Goal,
    Input,
    Scores,
    Task,
    TaskConfig,
    as_text,
    check_record_size,
    record_each,
)
from limelight.view.capture import capture
from limelight.view.lens import logit_lens
from limelight.view.record import Picture, Record, attention_maps, most_likely, place_in_encoder

MEASURED = 10_000  # images from which the mean and standard deviation of pixels are estimated
BATCH = 500  # images that are classified at once
SOME_IMAGES = 1_000  # images that are classified to find examples


class ImagesConfig(TaskConfig):
    """Image classification."""

    models = (ViTConfig,)
    path_data = "files"

    kind: Literal["images"] = Field("images", description="the kind of task")
    data: Annotated[Digits | Cifar10 | ImageFiles, Field(discriminator="kind", description="the data set")]
    augment: AugmentConfig = Field(AugmentConfig(), description="random changes to training images")

    def load(self, seed: int) -> tuple["ClassifyImages", ImageData]:
        """Load the data set, and make the task from it."""
        scaling = self.data.scaling if isinstance(self.data, ImageFiles) else COVER
        data = self.data.load(seed)
        classes = count_classes(data.names, data.splits["train"].labels.tolist())
        data = replace(data, notes=(*data.notes, *classes))
        return ClassifyImages.of(data, self.augment, scaling), data

    def load_from(self, seed: int, start: Task[Any]) -> tuple["ClassifyImages", ImageData]:
        """Images are scaled and, with as many channels, normalised as in the task to start from."""
        if not isinstance(start, ClassifyImages):
            raise WrongInput("the run to start from is not one of images")
        config = self
        if isinstance(self.data, ImageFiles):
            update: dict[str, Any] = {"scaling": start.scaling}
            if start.scaling != COVER:  # a pre-trained model has positions for one size
                channels, update["size"], _ = start.sizes.image
                update["color"] = channels == 3
            data = self.data.model_copy(update=update)
            config = self.model_copy(update={"data": data})
        task, found = config.load(seed)
        return task.normalising_like(start), found

    def load_other(self, task: "ClassifyImages", path: Path) -> ImageData:
        """Other images: a folder with one subfolder per class, IDX files, or CIFAR-10."""
        if isinstance(self.data, Cifar10) and not os.path.isdir(path):
            return self.data.load_other(path)
        channels, rows, columns = task.sizes.image
        if rows != columns:
            raise WrongInput(f"the images of training have {rows} × {columns} pixels; allowed: square images")
        files = self.data if isinstance(self.data, ImageFiles) else ImageFiles(size=rows, color=channels == 3)
        files = files.model_copy(update={"scaling": task.scaling, "size": rows})
        return files.load_other(path, task.names)

    def restore(self, state: str) -> "ClassifyImages":
        """Make the task from its state, for prediction."""
        return ClassifyImages(read_json(ImagesState, state, "data.json"), self.augment)


class ImagesState(Config):
    """The properties of the data that prediction needs."""

    names: tuple[str, ...] = Field(min_length=1, description="the classes")
    image: tuple[PositiveInt, PositiveInt, PositiveInt] = Field(description="channels, rows, columns")
    mean: tuple[float, ...] = Field(description="mean of each channel over training, from 0 to 1")
    deviation: tuple[PositiveFloat, ...] = Field(description="standard deviation of each channel")
    scaling: Scaling = Field(COVER, description="how images of another size are scaled")

    @model_validator(mode="after")
    def _one_per_channel(self) -> Self:
        if not len(self.mean) == len(self.deviation) == self.image[0]:
            raise ValueError(f"mean and deviation must have {self.image[0]} channels")
        return self


class ClassifyImages(Task[ImageData]):
    """Cross-entropy of the class. Training images are augmented; all images are normalised."""

    unit = "images"
    input_kind = "image"

    def __init__(self, state: ImagesState, augment: AugmentConfig) -> None:
        self._state, self._augment = state, augment
        self.names = state.names

    @classmethod
    def of(cls, data: ImageData, augment: AugmentConfig, scaling: Scaling = COVER) -> "ClassifyImages":
        """The task that a data set defines."""
        pixels = data.splits["train"].pixels
        channels, rows, columns = pixels.shape[1:]
        if augment.padding == "reflect" and augment.crop >= min(rows, columns):
            allowed = f"less than {min(rows, columns)} with reflecting padding"
            raise wrong("task.augment.crop", augment.crop, allowed)
        mean, deviation = _measure(pixels)
        state = ImagesState(
            names=data.names,
            image=(channels, rows, columns),
            mean=tuple(mean.tolist()),
            deviation=tuple(deviation.clamp(min=1e-3).tolist()),
            scaling=scaling,
        )
        return cls(state, augment)

    def normalising_like(self, other: "ClassifyImages") -> "ClassifyImages":
        """This task with the mean and deviation of another one, if its images have as many channels."""
        if len(self._state.mean) != len(other._state.mean):
            return self
        same = {"mean": other._state.mean, "deviation": other._state.deviation}
        return ClassifyImages(self._state.model_copy(update=same), self._augment)

    @property
    def scaling(self) -> Scaling:
        """How images of another size are scaled."""
        return self._state.scaling

    @property
    def goal(self) -> Goal:
        """Accuracy."""
        return Goal("accuracy", 1.0)

    @property
    def sizes(self) -> Sizes:
        """Data-dependent model dimensions."""
        return Sizes(outputs=len(self.names), image=self._state.image)

    @property
    def state(self) -> str:
        """JSON: what prediction needs besides the weights."""
        return self._state.model_dump_json()

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """The arguments with which the model is called."""
        return (self.normalise(batch.inputs.float() / 255),)

    def blank(self, count: int) -> Batch:
        """A batch of `count` examples without content, as long as the longest of training."""
        pixels = torch.zeros(count, *self._state.image, dtype=torch.uint8)
        return Batch(pixels, torch.zeros(count, dtype=torch.long), torch.arange(count))

    def normalise(self, images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, C, Y, X)"""
        mean, deviation = self._statistics(images)
        return (images - mean) / deviation

    def restore_pixels(self, images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, C, Y, X)

        The pixels, from 0 to 255, of normalised images.
        """
        mean, deviation = self._statistics(images)
        return (images * deviation + mean) * 255

    def _statistics(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """-> (C, 1, 1), (C, 1, 1), the mean and the deviation of each channel"""
        mean, deviation = (
            images.new_tensor(values).view(-1, 1, 1) for values in (self._state.mean, self._state.deviation)
        )
        return mean, deviation

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """Cross-entropy and accuracy."""
        images, other_B, share = self._prepare(batch, model.training)
        logits_BL = model(images)
        loss = share * _loss(logits_BL, batch.targets, smoothing)
        if other_B is not None and share < 1:
            loss = loss + (1 - share) * _loss(logits_BL, batch.targets.index_select(0, other_B), smoothing)
        right = (logits_BL.argmax(-1) == batch.targets).sum()
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def _prepare(self, batch: Batch, training: bool) -> tuple[Tensor, Tensor | None, float]:
        """-> normalised images (B, C, Y, X), which image is mixed into each (B), and its share of itself"""
        config = self._augment if training else AugmentConfig()
        images = self.normalise(recolour(augment(batch.inputs, config).float() / 255, config))
        if config.erase:
            images = erase(images, config.erase)
        return mix(images, config) if config.mixup or config.cutmix else (images, None, 1.0)

    def predict(
        self, model: nn.Module, inputs: Sequence[Input], options: Any = None, *, first: int = 1
    ) -> list[Answer]:
        """One answer per image, given as the path of a file, as its bytes, or as pixels (C, Y, X)."""
        device = next(model.eval().parameters()).device
        answers = []
        for number, one in enumerate(inputs, first):
            pixels = self.read(one, number).unsqueeze(0).to(device)
            probabilities = dict(zip(self.names, self.probabilities(model, pixels)[0].tolist(), strict=True))
            best = max(self.names, key=lambda name: probabilities[name])
            answers.append(Answer(best, probabilities[best], probabilities=probabilities))
        return answers

    def record(self, model: nn.Module, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        """The answer and all attention maps of each image, in order; for an invalid input, its error."""
        vit = cast(ViT, model.eval())
        return record_each(inputs, lambda given, number: self._record(vit, given, number))

    def _record(self, model: ViT, given: Input, number: int) -> Record:
        pixels = self.read(given, number)
        first = ("[class]", "[distillation]")[: len(model.tokens)]
        image = Picture.of(pixels, model.patch, len(first))
        check_record_size(image.rows * image.columns, f"{image.rows} × {image.columns} patches")
        device = next(model.parameters()).device
        x = self.normalise(pixels.unsqueeze(0).to(device).float() / 255)
        found = capture(model, x)
        likely = most_likely(found.output[0].float().softmax(-1).cpu(), self.names.__getitem__)
        maps, weights = attention_maps(found.attentions, place_in_encoder)
        patches = (f"{row}, {column}" for row in range(image.rows) for column in range(image.columns))
        return Record(
            # The file name without its folder, because a page may be shared.
            given=as_text(Path(given).name) if isinstance(given, str | Path) else "",
            answer=likely[0].text,
            probability=likely[0].probability,
            sides={"source": (*first, *patches)},
            maps=maps,
            weights=weights,
            candidates=likely,
            image=image,
            lens=logit_lens(model, lambda: model(x)[0].float().softmax(-1), self.names.__getitem__),
        )

    def examples(self, dataset: ImageData, split: str) -> Iterator[Example]:
        """All images of a split with their classes."""
        images = dataset.examples(split)
        for pixels, label in zip(images.pixels, images.labels.tolist(), strict=True):
            yield Example(pixels, (self.names[label],))

    def figure_example(self, model: nn.Module, dataset: ImageData, split: str) -> Example:
        """An image that the model classifies correctly, if there is one among the first."""
        images = dataset.examples(split)
        pixels, labels = images.pixels[:BATCH], images.labels[:BATCH]
        right = (self.classify(model, pixels) == labels).nonzero().flatten().tolist()
        chosen = right[0] if right else 0
        return Example(pixels[chosen], (self.names[int(labels[chosen])],))

    def figures(self, model: nn.Module, dataset: ImageData, split: str, name: str) -> dict[str, Figure]:
        """Correctly and wrongly classified examples, and the similarity of positions.

        At most 1,000 images are classified, evenly spaced because they may be sorted by class.
        """
        images = dataset.examples(split)
        step = -(-len(images.labels) // SOME_IMAGES)
        some = Images(images.pixels[::step], images.labels[::step])
        return draw_figures(cast(ViT, model), some, self.classify(model, some.pixels), self.names, name)

    def evaluate_answers(
        self, model: nn.Module, dataset: ImageData, split: str, options: Any = None
    ) -> Judgement:
        """Precision, recall and F1 of each class, and the confusion matrix."""
        images = dataset.examples(split)
        return judge_classes(images.labels, self.classify(model, images.pixels), self.names)

    def inputs_in(self, path: Path) -> list[str]:
        """An image file is one input."""
        return [str(path)]

    def classify(self, model: nn.Module, pixels: Tensor) -> Tensor:
        """(N, C, Y, X) -> (N), the most likely class of each image"""
        device = next(model.parameters()).device
        batches = pixels.split(BATCH)
        return torch.cat([self.probabilities(model, some.to(device)).argmax(-1) for some in batches])

    @torch.no_grad()
    def probabilities(self, model: nn.Module, pixels: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, L)"""
        return model.eval()(self.normalise(pixels.float() / 255)).float().softmax(-1).cpu()

    def read(self, one: str | Path | bytes | Tensor, number: int = 1) -> Tensor:
        """-> (C, Y, X), from the path of a file, its bytes, or pixels"""
        channels, rows, columns = self._state.image
        if isinstance(one, bytes):
            return read_image(one, (rows, columns), channels, scaling=self.scaling)
        if not isinstance(one, Tensor):
            if not str(one).strip():
                raise WrongInput(f"input {number} is empty; allowed: the name of an image file")
            return read_image(Path(one), (rows, columns), channels, str(one), self.scaling)
        if one.dtype != torch.uint8 or one.dim() != 3 or one.shape[0] != channels:
            what = f"{tuple(one.shape)} of {one.dtype}"
            raise WrongInput(f"input {number} is {what}; allowed: ({channels}, Y, X) of torch.uint8")
        return one


def _measure(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """(N, C, Y, X) -> (C), (C)

    Mean and standard deviation of each channel, from 0 to 1. A few images at a time, because float64 takes
    eight times the memory of bytes.
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
