"""Every recipe on a device other than the CPU: a tensor that stays on the CPU is an error there, too."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from second_device import second_device
from small_recipes import small
from tiny import StopAt
from torch import Tensor, nn

import limelight
from limelight.data.batching import Batch
from limelight.experiment import Run, recipes
from limelight.training.interrupt import Interrupted

MIXED = "expected all tensors to be on the same device"
SEARCHES: list[dict[str, Any]] = [
    {},
    {"beam": 3, "n_best": 2, "alignment": True},
    {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "seed": 3},
]


def train_there(recipe: str, out: Path, folder: Path, **options: Any) -> Run:
    """Train a small version of a recipe on the second device; to be called inside `second_device`."""
    settings, data = small(recipe, folder)
    settings |= options.pop("settings", {})
    with pytest.MonkeyPatch.context() as patch:  # the command line offers only the devices of this machine
        patch.setattr(import_module("limelight.experiment.train"), "choose", torch.device)
        return limelight.train(recipe, settings, out, data=data, device="meta", **options)


def inputs_of(run: Run) -> list[Any]:
    """Some held-out inputs."""
    batch = run.dataset.batch(run.dataset.held_out, torch.arange(3))
    return [run.sample] if run.sample else list(batch.inputs)


def check_recipe(recipe: str, folder: Path, settings: dict[str, Any]) -> None:
    """Train and use a recipe on the second device; the CPU gives the same results with the same weights."""
    with second_device() as device:
        there = train_there(recipe, folder / "run", folder, settings=settings)
        assert {parameter.device for parameter in there.model.parameters()} == {device}
        inputs, metrics = inputs_of(there), there.evaluate()
        searches = SEARCHES if there.experiment.task.kind == "translate" else [{}]
        answers = [there.predict(inputs, **search) for search in searches]
        records = there.see(*inputs).records
    here = limelight.open_run(folder / "run", device="cpu")
    assert here.evaluate() == pytest.approx(metrics, rel=1e-4)
    for search, expected in zip(searches, answers, strict=True):
        assert [str(one) for one in here.predict(inputs, **search)] == [str(one) for one in expected]
    for one, other in zip(here.see(*inputs).records, records, strict=True):
        # A record stores a weight as a number of steps, which rounding may change by one.
        torch.testing.assert_close(one.layers(), other.layers(), rtol=0, atol=1 / 128)


@pytest.mark.parametrize("recipe", sorted(recipes()))
def test_every_recipe_trains_predicts_and_shows_attention_on_another_device(
    recipe: str, tmp_path: Path
) -> None:
    check_recipe(recipe, tmp_path, {})


OTHER_SETTINGS: dict[str, dict[str, Any]] = {
    "brackets": {"model.pooling": "attention", "model.causal": True, "train.accumulate": 2},
    "text": {"model.pooling": "class-token", "model.positions": "learned", "model.inner_dropout": 0.1},
    "reverse": {"model.causal": True, "model.norm": "pre", "train.optimiser": "muon"},
    "digits": {
        "model.pooling": "mean",
        "model.positions": "learned",
        "model.stochastic_depth": 0.2,
        "task.augment.flip": True,
        "task.augment.cutmix": 0.3,
        "task.augment.mixup": 0.3,
        "task.augment.erase": 0.2,
        "task.augment.brightness": 0.2,
    },
    "translate": {"model.positions": "learned", "model.norm": "post", "model.dropout": 0.2},
    "translate-rnn": {"model.depth": 2, "model.bidirectional": False, "model.dropout": 0.2},
}


@pytest.mark.parametrize("recipe", OTHER_SETTINGS)
def test_settings_that_no_recipe_has_work_on_another_device(recipe: str, tmp_path: Path) -> None:
    check_recipe(recipe, tmp_path, OTHER_SETTINGS[recipe])


@pytest.mark.parametrize("recipe", ["majority", "translate"])  # AdamW, and Muon with a decoder
def test_a_run_that_is_resumed_on_another_device_ends_like_one_on_the_cpu(
    recipe: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"model.dropout": 0.0, "train.average": 0.9}
    small_settings, data = small(recipe, tmp_path)
    here = limelight.train(recipe, small_settings | settings, tmp_path / "here", data=data, device="cpu")
    with second_device():
        with pytest.raises(Interrupted):
            train_there(recipe, tmp_path / "there", tmp_path, settings=settings, watcher=StopAt(2))
        there = train_there(recipe, tmp_path / "there", tmp_path, settings=settings, resume=True)
    for one, other in zip(here.journal, there.journal, strict=True):
        assert other["train"] == pytest.approx(one["train"], rel=1e-4)
        assert other["validation"] == pytest.approx(one["validation"], rel=1e-4)


# The negative controls


class MakesATensor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + torch.arange(5)


class HasATensor(MakesATensor):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(5)  # no buffer: .to(device) does not move it

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.table


class Correct(MakesATensor):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + torch.arange(5, device=x.device)


@pytest.mark.parametrize("model", [MakesATensor, HasATensor])
def test_a_tensor_that_stays_on_the_cpu_is_refused(model: Callable[[], nn.Module]) -> None:
    with second_device() as device:
        x = torch.ones(2, 3, device=device)
        Correct().to(device)(x).sum().backward()
        with pytest.raises(RuntimeError, match=MIXED):
            model().to(device)(x)


def test_a_batch_that_stays_on_the_cpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "to", lambda self, device: self)
    with second_device(), pytest.raises(RuntimeError, match=MIXED):
        train_there("majority", tmp_path / "run", tmp_path)
