"""R3: a run that is interrupted at any step and resumed ends with the bits of an uninterrupted run."""

from pathlib import Path

import pytest
import torch
from support import flat, must_fail, not_none
from tiny import ENVIRONMENT, STEPS, StopAt, fit, result, trainer

from limelight.errors import WrongInput
from limelight.randomness import seed
from limelight.training import loop
from limelight.training.folder import Progress
from limelight.training.interrupt import Signals
from limelight.training.journal import read_journal
from limelight.training.loop import Trainer
from limelight.training.optimise import Optimiser


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The result of a run without interruption."""
    path = tmp_path_factory.mktemp("uninterrupted")
    assert not_none(fit(path)).step == STEPS
    return result(path)


def check_resume(path: Path, step: int, expected: tuple[str, str], kind: type[Trainer] = Trainer) -> None:
    assert fit(path, watcher=StopAt(step)) is None
    assert fit(path, resume=True, kind=kind) is not None
    assert result(path) == expected


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_run_resumed_at_any_step_ends_with_the_same_bits(
    step: int, tmp_path: Path, uninterrupted: tuple[str, str]
) -> None:
    check_resume(tmp_path, step, uninterrupted)


class ForgetsTheOptimiser(Trainer):
    def resume(self, *, inexact: bool = False) -> None:
        super().resume(inexact=inexact)
        self.optimiser = Optimiser(self.model, self.config.decay)


class ForgetsTheSums(Trainer):
    def resume(self, *, inexact: bool = False) -> None:
        super().resume(inexact=inexact)
        self.progress.sums, self.progress.count = {}, 0


class DoesNotSeedSteps(Trainer):
    """Dropout depends on all random numbers drawn before."""

    def _step(self, signals: object) -> None:
        loop.seed = lambda number, device: None  # type: ignore[attr-defined]
        try:
            super()._step(signals)  # type: ignore[arg-type]
        finally:
            loop.seed = seed  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [ForgetsTheOptimiser, ForgetsTheSums, DoesNotSeedSteps])
def test_the_check_catches_a_trainer_that_does_not_restore_its_state(
    kind: type[Trainer], tmp_path: Path, uninterrupted: tuple[str, str]
) -> None:
    must_fail(check_resume, tmp_path, 17, uninterrupted, kind)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(
    tmp_path: Path, uninterrupted: tuple[str, str]
) -> None:
    fit(tmp_path / "again")
    assert result(tmp_path / "again") == uninterrupted
    fit(tmp_path / "other", {"seed": 2})
    assert result(tmp_path / "other") != uninterrupted


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, uninterrupted: tuple[str, str]) -> None:
    fit(tmp_path)
    progress = fit(tmp_path, resume=True)
    assert isinstance(progress, Progress)
    assert progress.step == STEPS
    assert result(tmp_path) == uninterrupted


def test_resuming_in_another_environment_is_an_error_unless_allowed(tmp_path: Path) -> None:
    fit(tmp_path, watcher=StopAt(10))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write("a line that was written after the checkpoint\n")
    before = (tmp_path / "metrics.jsonl").read_bytes()
    made = trainer(tmp_path)
    made.environment = ENVIRONMENT | {"torch": "another"}
    with pytest.raises(WrongInput, match=r"torch was the same, is another.*--allow-inexact"):
        made.resume()
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    made.resume(inexact=True)
    assert made.progress.step == 10
    assert len(read_journal(tmp_path / "metrics.jsonl")) == 1


def test_the_interval_of_evaluations_does_not_change_the_weights(
    tmp_path: Path, uninterrupted: tuple[str, str]
) -> None:
    fit(tmp_path, {"train.evaluate_every": "60 steps"})
    assert result(tmp_path)[0] == uninterrupted[0]
    assert result(tmp_path)[1] != uninterrupted[1]


@pytest.mark.parametrize("parts", [2, 3, 11])
def test_an_accumulated_batch_has_the_same_gradient(parts: int, tmp_path: Path) -> None:
    """Eleven parts of ten examples: one is empty."""

    def gradients(accumulate: int) -> torch.Tensor:
        settings = {"model.dropout": 0.0, "train.accumulate": accumulate}
        made = trainer(tmp_path, settings)
        made._step(Signals())
        return flat(not_none(parameter.grad) for parameter in made.model.parameters())

    torch.testing.assert_close(gradients(parts), gradients(1), rtol=1e-4, atol=1e-6)


def test_with_averaged_weights_and_muon_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    settings = {"train.average": 0.9, "train.optimiser": "muon"}
    fit(tmp_path / "uninterrupted", settings)
    expected = result(tmp_path / "uninterrupted")
    for step in (3, 14, 38):
        path = tmp_path / str(step)
        assert fit(path, settings, watcher=StopAt(step)) is None
        fit(path, settings, resume=True)
        assert result(path) == expected
    fit(tmp_path / "not averaged", {"train.optimiser": "muon"})
    assert result(tmp_path / "not averaged") != expected
