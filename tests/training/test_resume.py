"""R3: resumed at any step, a run ends with the bits it would have had."""

from pathlib import Path

import pytest
import torch
from support import flat, goes_red
from tiny import ENVIRONMENT, STEPS, StopAt, fit, result, trainer

from limelight.errors import WrongInput
from limelight.randomness import seed
from limelight.training import loop
from limelight.training.interrupt import Signals
from limelight.training.journal import read_journal
from limelight.training.loop import Progress, Trainer
from limelight.training.optimise import Optimiser


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What a run that nothing interrupts ends with."""
    path = tmp_path_factory.mktemp("whole")
    assert fit(path).step == STEPS
    return result(path)


def check_resume(path: Path, step: int, expected: tuple[str, str], kind: type[Trainer] = Trainer) -> None:
    assert fit(path, watcher=StopAt(step)) is None
    assert fit(path, resume=True, kind=kind) is not None
    assert result(path) == expected


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_run_resumed_at_any_step_ends_with_the_same_bits(
    step: int, tmp_path: Path, whole: tuple[str, str]
) -> None:
    check_resume(tmp_path, step, whole)


class ForgetsTheOptimiser(Trainer):
    def resume(self, *, inexact: bool = False) -> None:
        super().resume(inexact=inexact)
        self.optimiser = Optimiser(self.model, self.config.decay)


class ForgetsTheSums(Trainer):
    def resume(self, *, inexact: bool = False) -> None:
        super().resume(inexact=inexact)
        self.progress.sums, self.progress.count = {}, 0


class CarriesItsRandomness(Trainer):
    """Dropout as a history: what was drawn depends on what was drawn before."""

    def _step(self, signals: object) -> None:
        loop.seed = lambda number, device: None
        try:
            super()._step(signals)  # type: ignore[arg-type]
        finally:
            loop.seed = seed


@pytest.mark.parametrize("kind", [ForgetsTheOptimiser, ForgetsTheSums, CarriesItsRandomness])
def test_the_check_catches_a_trainer_that_forgets(
    kind: type[Trainer], tmp_path: Path, whole: tuple[str, str]
) -> None:
    goes_red(check_resume, tmp_path, 17, whole, kind)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    tmp_path: Path, whole: tuple[str, str]
) -> None:
    fit(tmp_path / "again")
    assert result(tmp_path / "again") == whole
    fit(tmp_path / "other", seed=2)
    assert result(tmp_path / "other") != whole


def test_a_run_resumes_after_its_end_and_changes_nothing(tmp_path: Path, whole: tuple[str, str]) -> None:
    fit(tmp_path)
    progress = fit(tmp_path, resume=True)
    assert isinstance(progress, Progress)
    assert progress.step == STEPS
    assert result(tmp_path) == whole


def test_another_environment_is_named_and_refused_unless_allowed(tmp_path: Path) -> None:
    fit(tmp_path, watcher=StopAt(10))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write("a line that came after the checkpoint\n")
    before = (tmp_path / "metrics.jsonl").read_bytes()
    made = trainer(tmp_path)
    made.environment = ENVIRONMENT | {"torch": "another"}
    with pytest.raises(WrongInput, match=r"torch was the same, is another.*--allow-inexact"):
        made.resume()
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    made.resume(inexact=True)
    assert made.progress.step == 10
    assert len(read_journal(tmp_path / "metrics.jsonl")) == 1


def test_evaluation_in_between_changes_no_weight(tmp_path: Path, whole: tuple[str, str]) -> None:
    fit(tmp_path, **{"train.evaluate_every": "60 steps"})
    assert result(tmp_path)[0] == whole[0]
    assert result(tmp_path)[1] != whole[1]


@pytest.mark.parametrize("pieces", [2, 3, 11])
def test_a_batch_in_pieces_has_the_same_gradient(pieces: int, tmp_path: Path) -> None:
    """Eleven pieces of ten examples: one is empty."""

    def slopes(accumulate: int) -> torch.Tensor:
        settings = {"model.dropout": 0.0, "train.accumulate": accumulate}
        made = trainer(tmp_path, **settings)
        made._step(Signals())
        return flat(parameter.grad for parameter in made.model.parameters())

    torch.testing.assert_close(slopes(pieces), slopes(1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("step", [3, 14, 38])
def test_with_mean_weights_and_muon_a_resumed_run_ends_with_the_same_bits(step: int, tmp_path: Path) -> None:
    settings = {"train.average": 0.9, "train.optimiser": "muon"}
    fit(tmp_path / "whole", **settings)
    assert fit(tmp_path / "resumed", watcher=StopAt(step), **settings) is None
    fit(tmp_path / "resumed", resume=True, **settings)
    assert result(tmp_path / "resumed") == result(tmp_path / "whole")
    fit(tmp_path / "plain", **{"train.optimiser": "muon"})
    assert result(tmp_path / "plain") != result(tmp_path / "whole")
