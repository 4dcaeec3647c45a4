"""What an image model looks at, and what it takes for what."""

from dataclasses import dataclass
from typing import cast

import torch
from matplotlib.figure import Figure
from torch import Tensor

from limelight.data.images.image_data import Images
from limelight.experiment.run import Run
from limelight.models.vit import ViT
from limelight.tasks.images.task import ClassifyImages
from limelight.view import draw_confusion, draw_looks, draw_sheet, draw_similarities, rollout, watch

BATCH = 500
SHOWN = 16  # images of which the model was right, and as many of which it was wrong


@dataclass(frozen=True)
class Looks:
    """Of one image: the probability of each class (L), a map of the patches a layer and head
    (layers, H, y, x), and the rollout of all layers (y, x)."""

    probabilities: Tensor
    layers: Tensor
    whole: Tensor


@torch.no_grad()
def look_at(model: ViT, task: ClassifyImages, pixels: Tensor) -> Looks:
    """(C, Y, X) -> what the class token looks at; without one, what the patches look at, on the mean"""
    device = next(model.parameters()).device
    with watch(model) as seen:
        probabilities = task.probabilities(model, pixels.unsqueeze(0).to(device))[0]
    layers_lHTT = torch.stack([found[0][0].cpu() for name, found in seen.items() if "self_attention" in name])
    rows, columns = (size // model.patch for size in pixels.shape[1:])

    def of_patches(weights: Tensor) -> Tensor:
        """(..., T, T) -> (..., y, x)"""
        read = weights.mean(-2) if model.class_token is None else weights[..., 0, 1:]
        return read.unflatten(-1, (rows, columns))

    return Looks(probabilities, of_patches(layers_lHTT), of_patches(rollout(list(layers_lHTT))))


def draw_look(model: ViT, task: ClassifyImages, pixels: Tensor, title: str) -> Figure:
    """The image, what each layer and head looks at, and what the model says."""
    looks = look_at(model, task, pixels)
    best = looks.probabilities.topk(min(3, len(task.names)))
    said = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    words = ", ".join(f"{task.names[number]} {probability:.1%}" for number, probability in said)
    return draw_looks(pixels, looks.layers, looks.whole, title=f"{title}: {words}")


def draw_images(run: Run, task: ClassifyImages) -> None:
    """examples.png, confusion.png and positions.png of the held-out images."""
    name, images, classes = run.experiment.name, task.examples(run.held_out), len(task.names)
    said_N = _answers(run, images)
    right_N = said_N == images.labels
    shown = torch.cat([(right_N == good).nonzero().flatten()[:SHOWN] for good in (True, False)])
    captions = [_caption(task.names[images.labels[i]], task.names[said_N[i]]) for i in shown.tolist()]
    title = f"{name}: right and wrong"
    sheet = draw_sheet(images.pixels[shown], captions, right_N[shown].tolist(), title=title)
    counts_LL = (images.labels * classes + said_N).bincount(minlength=classes**2).unflatten(0, (classes, -1))
    confusion = draw_confusion(counts_LL, task.names, title=name)
    positions = cast(ViT, run.model).positions
    alike = draw_similarities(positions.vectors(*positions.grid), *positions.grid, title=f"{name}: positions")
    for file, figure in {"examples": sheet, "confusion": confusion, "positions": alike}.items():
        figure.savefig(run.path / f"{file}.png", dpi=150)


def first_right(run: Run) -> Tensor:
    """-> (C, Y, X), a held-out image that the model is right about; the first, if it is about none"""
    images = cast(ClassifyImages, run.task).examples(run.held_out)
    some = Images(images.pixels[:BATCH], images.labels[:BATCH])
    right = (_answers(run, some) == some.labels).nonzero().flatten().tolist()
    return some.pixels[right[0] if right else 0]


def _answers(run: Run, images: Images) -> Tensor:
    """-> (N), the most likely class of each"""
    task = cast(ClassifyImages, run.reading)
    return torch.cat(
        [
            task.probabilities(run.model, pixels.to(run.device)).argmax(-1)
            for pixels in images.pixels.split(BATCH)
        ]
    )


def _caption(truth: str, said: str) -> str:
    return truth if truth == said else f"{truth},\nsaid {said}"
