"""Digits: training, resuming, prediction and figures."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from command import command
from drawn import noise
from PIL import Image
from support import must_fail, not_none
from tiny import StopAt

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.figures import attention_figure, page_figures
from limelight.experiment.pages import draw_page
from limelight.tasks.images.task import ClassifyImages
from limelight.training.interrupt import Interrupted
from limelight.training.progress import Watcher
from limelight.view import watch

QUICK = {
    "train.epochs": 16,
    "train.evaluate_every": "4 epochs",
    "train.average": 0.9,
    "train.warmup": 10,
    "train.rate": 1e-2,
    "task.augment.mixup": 0.0,
    "model.depth": 2,
    "model.width": 32,
    "model.hidden": 32,
}
AUGMENTED = {
    "task.augment.flip": True,
    "task.augment.cutmix": 0.3,
    "task.augment.mixup": 0.3,
    "task.augment.erase": 0.2,
    "task.augment.brightness": 0.2,
    "model.patch_dropout": 0.25,
    "model.stochastic_depth": 0.2,
    "train.epochs": 2,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return limelight.train("digits", QUICK, out=tmp_path_factory.mktemp("digits") / "run")


@pytest.fixture(scope="module")
def seven(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A test image as a file, enlarged."""
    images = run.dataset.examples("test")
    pixels = images.pixels[int((images.labels == 7).nonzero()[0])][0]
    path = tmp_path_factory.mktemp("images") / "seven.png"
    Image.fromarray(pixels.numpy()).resize((80, 80), Image.Resampling.NEAREST).save(path)
    return path


def size(picture: Path) -> tuple[int, int]:
    with Image.open(picture) as opened:
        return opened.size


def test_an_image_model_learns_and_writes_its_figures(run: Run) -> None:
    assert run.evaluate("test")["accuracy"] > 0.8
    for name in ("curves", "attention", "examples", "confusion", "positions"):
        assert size(run.path / f"{name}.png") > (300, 300)


def test_the_figure_draws_the_attention_of_the_class_token(run: Run, seven: Path) -> None:
    figure = attention_figure(run, str(seven))
    assert isinstance(run.task, ClassifyImages)
    pixels = run.task.read(seven)
    with watch(run.model) as seen:
        run.model(run.task.normalise(pixels.unsqueeze(0).float() / 255))
    drawn = {axes.get_title(): axes.images for axes in figure.axes if axes.get_title()}
    close: dict[str, Any] = {"rtol": 0.0, "atol": 1 / 255}
    for number, weights in enumerate(passes[0][0] for passes in seen.values()):
        for head, weights_TT in enumerate(weights):
            image, over = drawn[f"layer {number}, head {head}"]
            assert torch.from_numpy(not_none(image.get_array()).data).equal(pixels[0])
            map_P = torch.from_numpy(not_none(over.get_array()).data).flatten()
            torch.testing.assert_close(map_P, weights_TT[0, 1:].detach(), **close)
            must_fail(
                lambda a, b: torch.testing.assert_close(a, b, **close), map_P, weights_TT[0, 1:].flip(0)
            )
    assert not_none(drawn["attention rollout"][1].get_array()).shape == (4, 4)
    assert figure.get_suptitle().startswith(f"seven.png: predicted {run.predict([seven])[0].text} (")


def test_the_report_shows_examples_and_the_confusion_matrix(run: Run, seven: Path) -> None:
    titles = (
        "training curves",
        "confusion matrix",
        "correct and wrong predictions",
        "similarity of positions",
    )
    for page in (draw_page(run), draw_page(run, str(seven))):
        found = re.findall(r'alt="digits: ([^"]+)"', page)
        assert tuple(found) == titles
        assert page.count('<source media="(prefers-color-scheme: dark)"') == len(titles)


def test_the_confusion_matrix_counts_the_whole_test_split(run: Run) -> None:
    figure = page_figures(run, with_data=False)["confusion"]
    counts = [int(text.get_text()) for text in figure.axes[0].texts]
    assert counts == [count for row in run.judge("test").confusion for count in row]
    assert sum(counts) == len(run.dataset.examples("test"))


def test_the_title_of_the_figure_of_a_run_has_the_true_class(run: Run) -> None:
    title = attention_figure(run).get_suptitle().replace("\n", " ")
    assert re.fullmatch(r"digits: predicted (\d) \(.*%\); true class \1", title)


def test_a_resumed_image_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    """With every augmentation, patch dropout and stochastic depth."""

    def train(out: Path, watcher: Watcher | None = None, resume: bool = False) -> bytes:
        made = limelight.train("digits", QUICK | AUGMENTED, out=out, watcher=watcher, resume=resume)
        return (max(made.path.glob("checkpoints/*")) / "weights.safetensors").read_bytes()

    whole = train(tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(tmp_path / "stopped", StopAt(23))
    assert train(tmp_path / "stopped", resume=True) == whole


def test_the_command_predict_classifies_image_files(run: Run, seven: Path) -> None:
    expected = run.predict([seven])[0]
    done = command("predict", str(run.path), str(seven))
    assert (done.returncode, done.stdout) == (0, f"{expected.text}\n")
    piped = command("predict", str(run.path), "--json", stdin=f"{seven}\n")
    (one,) = json.loads(piped.stdout)
    assert one["answer"] == expected.text
    assert list(one["probabilities"]) == list(map(str, range(10)))
    missing = command("predict", str(run.path), "missing.png")
    assert missing.returncode == 2
    assert missing.stderr == "limelight: missing.png: No such file or directory\n"


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """Seven test images in folders of their classes."""
    images = run.dataset.examples("test")
    for number, (pixels, label) in enumerate(zip(images.pixels[:7], images.labels.tolist(), strict=False)):
        (tmp_path / "new" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[0].numpy()).save(tmp_path / "new" / str(label) / f"{number}.png")
    return tmp_path / "new"


def test_a_folder_of_images_is_predicted_as_its_images(run: Run, folder: Path) -> None:
    paths = sorted(folder.rglob("*.png"))
    answers = [answer.text for answer in run.predict(paths)]
    lines = [f"{path}\t{answer}" for path, answer in zip(paths, answers, strict=True)]
    assert command("predict", str(run.path), str(folder)).stdout.splitlines() == lines
    run_folder = folder / "runs" / "digits"
    run_folder.mkdir(parents=True)
    (run_folder / "experiment.toml").touch()
    noise().save(run_folder / "attention.png")  # a figure of a run is not an input
    assert command("predict", str(run.path), str(folder)).stdout.splitlines() == lines
    paths[3].write_bytes(b"broken")
    done = command("predict", str(run.path), str(folder))
    assert done.returncode == 2
    assert done.stderr == "limelight: 1 of 7 inputs have no answer, but an error\n"
    found = done.stdout.splitlines()
    assert found[3].startswith(f"{paths[3]}\terror: {paths[3]}: not a PNG")
    assert found[:3] + found[4:] == lines[:3] + lines[4:]


def test_an_image_run_is_evaluated_on_other_images(run: Run, folder: Path, tmp_path: Path) -> None:
    images = run.dataset.examples("test")
    answers = run.predict(list(images.pixels[:7]))
    labels = images.labels[:7].tolist()
    right = [answer.text == str(label) for answer, label in zip(answers, labels, strict=True)]
    done = json.loads(command("evaluate", str(run.path), "--data", str(folder), "--json").stdout)
    assert done["accuracy"] == pytest.approx(sum(right) / 7)
    (alone,) = {path.parent for path in list(folder.rglob("*.png"))[:1]}
    (tmp_path / "one").mkdir()
    alone.rename(tmp_path / "one" / alone.name)
    assert run.evaluate(data=tmp_path / "one")["accuracy"] in (0, 0.5, 1)
    (folder / "cat").mkdir()
    (folder / "cat" / "cat.png").write_bytes(next(folder.rglob("*.png")).read_bytes())
    refused = command("evaluate", str(run.path), "--data", str(folder))
    assert "training has no class 'cat'; there are: 0, 1" in refused.stderr


def test_the_command_see_draws_the_attention_of_an_image(run: Run, seven: Path, tmp_path: Path) -> None:
    out = tmp_path / "attention.png"
    done = command("see", str(run.path), str(seven), "--out", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    assert size(out) > (300, 300)
    refused = command("see", str(run.path), str(seven), "--out", "attention.gif")
    assert refused.returncode == 2
    assert "allowed: a name that ends in .html, .json, .png, .svg, .pdf" in refused.stderr


def test_an_image_model_has_no_options_of_translation(run: Run, seven: Path) -> None:
    with pytest.raises(WrongInput, match="option 'alignment' does not apply"):
        run.predict([seven], alignment=True)


@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_the_recipe_digits_reaches_98_percent_on_average_over_seeds(tmp_path: Path) -> None:
    reached = []
    for seed in range(1, 6):
        made = limelight.train("digits", {"seed": seed}, out=tmp_path / str(seed))
        reached.append(made.evaluate("test")["accuracy"])
    assert sum(reached) / len(reached) >= 0.98
    assert min(reached) >= 0.972
