"""Work that needs more memory than is free is an error before it starts."""

from pathlib import Path
from typing import Any

import pytest
import torch

import limelight
from limelight import memory
from limelight.errors import WrongInput
from limelight.experiment.build import build_model, check_step
from limelight.experiment.config import experiment
from limelight.memory import check_memory, free_memory
from limelight.models.sizes import Sizes


def test_an_error_names_the_needed_and_the_free_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = free_memory()
    assert free is not None
    assert 10**7 < free < 10**15
    check_memory(1e6, "lower it")
    monkeypatch.setattr(memory, "free_memory", lambda: 24e9)
    check_memory(23.9e9, "lower it")
    with pytest.raises(
        WrongInput, match=r"^this needs about 40 GB of memory, but only 24 GB are free; lower it$"
    ):
        check_memory(40e9, "lower it")
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    check_memory(1e20, "the free memory is unknown")


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("reverse", {"model.hidden": 1_000_000}),
        ("reverse", {"model.hidden": 1_000_000, "model.width": 65_536}),
        ("reverse", {"task.data.test": 900_000_000}),
        ("reverse", {"task.data.length": 10_000, "train.batch": 100_000}),
        ("odd-one-out", {"task.data.train": 900_000_000}),
        ("majority", {"task.data.train": 900_000_000}),
    ],
)
def test_experiments_that_are_too_large_are_errors_before_a_folder_is_created(
    recipe: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(WrongInput, match=r"this needs (about|more than) [\d,.]+ GB of memory"):
        limelight.train(recipe, settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [2**31, 2**63 - 1, 10**30, 0])
@pytest.mark.parametrize("recipe", ["reverse", "odd-one-out", "majority", "count", "brackets", "translate"])
def test_numbers_of_examples_have_bounds(recipe: str, value: int) -> None:
    with pytest.raises(WrongInput, match=r"^task\.data\.train is \d+; allowed: "):
        experiment(recipe, {"task.data.train": value})


def test_the_estimate_of_a_step_grows_with_the_batch_of_one_process() -> None:
    """Twice the batch needs about twice the memory. Weights and random state do not change."""
    wanted = experiment(
        "brackets", {"task.data.train": 500, "task.data.validation": 50, "task.data.test": 50}
    )
    task, dataset = wanted.task.load(1)
    torch.manual_seed(1)
    model = build_model(wanted.model, task.sizes)
    state, before = torch.get_rng_state(), {name: w.clone() for name, w in model.state_dict().items()}
    needed = list[float]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("limelight.experiment.build.check_memory", lambda number, hint: needed.append(number))
        for batch in (128, 256):
            check_step(experiment("brackets", {"train.batch": batch}), task, dataset, model, 1)
        check_step(experiment("brackets", {"train.batch": 256}), task, dataset, model, 2)
    assert 1.3 < needed[1] / needed[0] < 2.1
    assert needed[2] == pytest.approx(needed[0], rel=0.1)  # each of two processes computes half of a batch
    assert torch.get_rng_state().equal(state)
    assert all(w.equal(before[name]) for name, w in model.state_dict().items())


def test_the_check_does_not_change_the_initial_weights() -> None:
    wanted, sizes = experiment("reverse").model, Sizes(outputs=10, vocabulary=10, longest=16)
    torch.manual_seed(5)
    expected = wanted.build(sizes)
    torch.manual_seed(5)
    for one, other in zip(build_model(wanted, sizes).parameters(), expected.parameters(), strict=True):
        assert one.equal(other)
