"""Figures of image classifiers show several classes, correct and wrong predictions."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from limelight.data.images.image_data import Images
from limelight.models.sizes import Sizes
from limelight.models.vit import ViT, ViTConfig
from limelight.tasks.images.figures import SHOWN, draw_figures

NAMES = ("ant", "bee", "cat", "dog", "a name that is too long for a caption")
EACH = 41  # images per class


def drawn(predicted: Tensor) -> dict[str, Figure]:
    """The figures of images that are sorted by class, as in a folder of class folders."""
    labels = torch.arange(len(NAMES)).repeat_interleave(EACH)
    images = Images(torch.zeros(len(labels), 1, 8, 8, dtype=torch.uint8), labels)
    model = ViTConfig(width=8, heads=1, depth=1).build(Sizes(outputs=len(NAMES), image=(1, 8, 8)))
    assert isinstance(model, ViT)
    return draw_figures(model, images, predicted, NAMES, "insects")


def captions(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def test_examples_have_equally_many_images_of_each_class() -> None:
    predicted = torch.arange(len(NAMES)).repeat_interleave(EACH)
    predicted[::2] = (predicted[::2] + 1) % len(NAMES)
    found = captions(drawn(predicted)["examples"])
    correct, wrong = found[:SHOWN], found[SHOWN:]
    shown = [name if len(name) < 9 else "a name that is …" for name in NAMES]
    for group in (correct, [caption.split(",")[0].removeprefix("true ") for caption in wrong]):
        assert len(group) == SHOWN
        assert group == sorted(group, key=shown.index)  # class by class
        assert {group.count(name) for name in shown} == {3, 4}
    assert wrong[0] == "true ant,\npredicted bee"


def test_rare_mistakes_are_all_shown() -> None:
    predicted = torch.arange(len(NAMES)).repeat_interleave(EACH)
    predicted[7], predicted[100] = 3, 0
    found = captions(drawn(predicted)["examples"])
    assert found[SHOWN:] == ["true ant,\npredicted dog", "true cat,\npredicted ant"]
