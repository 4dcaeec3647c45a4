"""Digits from the command line: trained, resumed, predicted, looked at."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from support import goes_red
from tiny import StopAt

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.image_pictures import look_at
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
WILD = {
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
    images = run.task.examples("test")
    pixels = images.pixels[int((images.labels == 7).nonzero()[0])][0]
    path = tmp_path_factory.mktemp("images") / "seven.png"
    Image.fromarray(pixels.numpy()).resize((80, 80), Image.Resampling.NEAREST).save(path)
    return path


def size(picture: Path) -> tuple[int, int]:
    with Image.open(picture) as opened:
        return opened.size


def test_it_learns_and_leaves_its_pictures(run: Run) -> None:
    assert run.evaluate("test")["accuracy"] > 0.8
    for name in ("curves", "attention", "examples", "confusion", "positions"):
        assert size(run.path / f"{name}.png") > (300, 300)


def test_maps_are_the_models_attention(run: Run) -> None:
    pixels = run.task.examples("test").pixels[0]
    looks = look_at(run.model, run.task, pixels)
    with watch(run.model) as seen:
        run.model(run.task.normalise(pixels.unsqueeze(0).float() / 255))
    for number, maps in enumerate(looks.layers):
        weights = seen[f"encoder.blocks.{number}.self_attention.weights"][0][0]
        torch.testing.assert_close(maps.flatten(1), weights[:, 0, 1:])
        goes_red(torch.testing.assert_close, maps.flatten(1), weights[:, 1, 1:])
    assert looks.whole.shape == (4, 4)
    assert float(looks.probabilities.sum()) == pytest.approx(1)


def test_resumed_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    """With every augmentation, patches left out and blocks skipped."""

    def train(out: Path, watcher: Watcher | None = None, resume: bool = False) -> bytes:
        made = limelight.train("digits", QUICK | WILD, out=out, watcher=watcher, resume=resume)
        return (max(made.path.glob("checkpoints/*")) / "weights.safetensors").read_bytes()

    whole = train(tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(tmp_path / "stopped", StopAt(23))
    assert train(tmp_path / "stopped", resume=True) == whole


def command(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "limelight", *arguments]
    return subprocess.run(program, input=stdin, capture_output=True, text=True)


def test_the_command_says_what_image_files_show(run: Run, seven: Path) -> None:
    expected = run.predict([seven])[0]
    done = command("predict", str(run.path), str(seven))
    assert (done.returncode, done.stdout) == (0, f"{expected.text}\n")
    piped = command("predict", str(run.path), "--json", stdin=f"{seven}\n")
    assert json.loads(piped.stdout)["answer"] == expected.text
    missing = command("predict", str(run.path), "missing.png")
    assert missing.returncode == 2
    assert missing.stderr == "limelight: missing.png: No such file or directory\n"


def test_the_command_draws_what_the_model_looks_at(run: Run, seven: Path, tmp_path: Path) -> None:
    out = tmp_path / "look.png"
    done = command("see", str(run.path), str(seven), "--out", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    assert size(out) > (300, 300)
    refused = command("see", str(run.path), str(seven), "--out", "look.gif")
    assert refused.returncode == 2
    assert "allowed: a name that ends in .html, .json, .png, .svg, .pdf" in refused.stderr


def test_an_image_model_has_no_beams(run: Run, seven: Path) -> None:
    with pytest.raises(WrongInput, match="does not translate"):
        run.predict([seven], alignment=True)


@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_the_recipe_for_digits_reaches_98_percent_whatever_the_seed(tmp_path: Path) -> None:
    reached = []
    for seed in range(1, 6):
        made = limelight.train("digits", {"seed": seed}, out=tmp_path / str(seed))
        assert made is not None
        reached.append(made.evaluate("test")["accuracy"])
    assert sum(reached) / len(reached) >= 0.98
    assert min(reached) >= 0.972
