"""Image classification: the loss, the pixels that the model gets, and the predictions."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from support import must_fail, not_none
from torch import Tensor, nn

from limelight.data.images.augment import AugmentConfig
from limelight.data.images.digits import Digits
from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.errors import WrongInput
from limelight.models.vit import ViTConfig
from limelight.tasks.images.task import ClassifyImages, ImagesConfig

NAMES = ("ant", "bee", "cat", "dog", "elk")


def drawn(count: int = 23) -> ImageData:
    torch.manual_seed(1)
    pixels = torch.randint(50, 201, (count, 3, 6, 7), dtype=torch.uint8)
    images = Images(pixels, torch.randint(len(NAMES), (count,)))
    return ImageData(hold_out_images({"train": images}, {"validation": 0.2}, seed=1), NAMES)


def task(**settings: Any) -> ClassifyImages:
    return ClassifyImages.of(drawn(), AugmentConfig(**settings))


class Flat(nn.Module):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(3 * 6 * 7, len(NAMES))
        self.seen: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(images)
        return self.output(images.flatten(1))


def check_normalised(images: Tensor) -> None:
    torch.testing.assert_close(images.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(images.std((0, 2, 3), correction=0), torch.ones(3), rtol=0, atol=1e-4)


def test_images_are_normalised_by_the_mean_and_deviation_of_training() -> None:
    asked = task()
    batch = drawn().batch("train", torch.arange(len(drawn().examples("train"))))
    (images,) = asked.arguments(batch)
    check_normalised(not_none(images))
    must_fail(check_normalised, batch.inputs / 255)


def test_the_loss_is_cross_entropy_and_the_metric_counts_correct_predictions() -> None:
    asked, model = task(), Flat().eval()
    batch = drawn().batch("validation", torch.arange(4))
    scores = asked.loss(model, batch, smoothing=0.1)
    logits = model(*asked.arguments(batch))
    expected = F.cross_entropy(logits, batch.targets, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(scores.loss, expected)
    assert int(scores.sums["accuracy"]) == int((logits.argmax(-1) == batch.targets).sum())


def test_training_images_are_augmented_and_others_are_not() -> None:
    asked, model = task(crop=2, flip=True, brightness=0.2, contrast=0.2, erase=0.5), Flat()
    batch = drawn().batch("train", torch.arange(5))
    for mode in (True, False):
        model.train(mode)
        model.seen.clear()
        asked.loss(model, batch)
        assert model.seen[0].equal(not_none(asked.arguments(batch)[0])) is not mode


def test_the_loss_of_a_mixed_image_is_the_weighted_sum_for_both_classes() -> None:
    asked, model = task(mixup=1.0), Flat().train()
    batch = drawn().batch("train", torch.arange(7))
    torch.manual_seed(5)
    found = asked.loss(model, batch).loss
    torch.manual_seed(5)
    other, (_, share) = torch.randperm(7), torch.rand(2).tolist()
    (inputs,) = asked.arguments(batch)
    plain = not_none(inputs)
    logits = model(torch.lerp(plain[other], plain, share))
    losses = [F.cross_entropy(logits, y, reduction="sum") for y in (batch.targets, batch.targets[other])]
    torch.testing.assert_close(found, share * losses[0] + (1 - share) * losses[1])
    must_fail(torch.testing.assert_close, found, losses[0])


def test_a_task_restored_from_its_state_gives_the_same_predictions() -> None:
    asked, model = task(), Flat()
    config = ImagesConfig(data=Digits())
    pixels = drawn().examples("validation").pixels[0]
    (answer,), (again,) = (one.predict(model, [pixels]) for one in (asked, config.restore(asked.state)))
    assert answer == again
    probabilities = asked.probabilities(model, pixels.unsqueeze(0))[0]
    assert answer.text == NAMES[int(probabilities.argmax())]
    assert answer.probability == pytest.approx(float(probabilities.max()))


def test_an_image_file_is_scaled_to_the_size_of_the_training_images(tmp_path: Path) -> None:
    asked, model = task(), Flat()
    image = Image.new("RGB", (70, 60), (200, 100, 50))
    image.save(tmp_path / "one.png")
    expected = torch.tensor([200, 100, 50], dtype=torch.uint8).view(3, 1, 1).expand(3, 6, 7)
    assert asked.read(tmp_path / "one.png").equal(expected)
    assert asked.predict(model, [tmp_path / "one.png"]) == asked.predict(model, [expected.clone()])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            torch.zeros(3, 6, 7),
            r"input 1 is \(3, 6, 7\) of torch.float32; allowed: \(3, Y, X\) of torch.uint8",
        ),
        (torch.zeros(1, 6, 7, dtype=torch.uint8), r"input 1 is \(1, 6, 7\)"),
        ("missing.png", r"missing\.png: No such file"),
        ("", "input 1 is empty; allowed: the name of an image file"),
    ],
)
def test_the_error_for_another_input_names_it(given: Tensor | str, message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        task().predict(Flat(), [given])


def test_the_splits_of_digits_contain_all_images_and_depend_on_the_seed() -> None:
    data = Digits().load(1)
    assert [len(split) for split in data.splits.values()] == [1258, 180, 359]
    whole = torch.cat([split.pixels for split in data.splits.values()])
    assert whole.shape == (1797, 1, 8, 8)
    assert (int(whole.min()), int(whole.max())) == (0, 255)
    assert data.digest == Digits().load(1).digest != Digits().load(2).digest


def test_examples_are_found_among_evenly_spaced_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limelight.tasks.images.task.SOME_IMAGES", 7)
    labels = torch.arange(len(NAMES)).repeat_interleave(4)
    pixels = torch.randint(256, (len(labels), 3, 8, 8), dtype=torch.uint8)
    data = ImageData({"train": Images(pixels, labels), "test": Images(pixels, labels)}, NAMES)
    asked = ClassifyImages.of(data, AugmentConfig())
    model = ViTConfig(width=8, heads=1, depth=1).build(asked.sizes).eval()
    shown = asked.figures(model, data, "test", "name")["examples"]
    captions = [axes.get_title().removeprefix("true ").split(",")[0] for axes in shown.axes]
    assert sorted(captions) == sorted(NAMES[label] for label in labels[::3].tolist())
    assert set(captions) == set(NAMES)
