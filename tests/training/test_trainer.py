"""R8: a loss that is not finite. Also: best weights, early stopping, schedules, the optimiser."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support import must_fail
from tiny import STEPS, fit, tiny, trainer
from torch import nn

from limelight.data.batching import Batch
from limelight.errors import Stopped
from limelight.tasks.sequence.classify import Classify
from limelight.tasks.task import Scores
from limelight.training.checkpoint import newest
from limelight.training.loop import Trainer
from limelight.training.optimise import SCHEDULES, Optimiser
from limelight.training.progress import show_metric
from limelight.training.weights import from_bytes, load_weights, to_bytes, weights_of


class NotFinite(Classify):
    """The loss of training example 7 is NaN or infinite."""

    factor = float("nan")

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        scores = super().loss(model, batch, smoothing)
        if len(batch) <= 10 and 7 in batch.index.tolist():
            return Scores(
                scores.loss * self.factor, {**scores.sums, "loss": scores.sums["loss"] * self.factor}
            )
        return scores


def check_stop(path: Path, kind: type[Trainer] = Trainer) -> None:
    wanted = tiny()
    data: Any = wanted.task.data
    task = NotFinite.of(data.load(wanted.seed))
    made = trainer(path, task=task, kind=kind)
    step = next(i for i in range(STEPS) if 7 in made._batch(i).index.tolist())
    index = made._batch(step).index[:8].tolist()
    with pytest.raises(Stopped) as stop:
        made.fit()
    assert f"step {step + 1}: the loss is" in str(stop.value)
    assert ", ".join(map(str, index)) in str(stop.value)
    assert all(tensor.isfinite().all() for tensor in weights_of(made.model).values())
    assert made.progress.step == step
    found = newest(path / "checkpoints")
    if found:
        assert all(
            tensor.isfinite().all() for tensor in from_bytes(found.files["weights.safetensors"]).values()
        )


class ChecksTooLate(Trainer):
    """Checks for NaN only after the update."""

    def _step(self, signals: object) -> None:
        before = math.isfinite
        try:
            math.isfinite = lambda x: True
            super()._step(signals)  # type: ignore[arg-type]
        finally:
            math.isfinite = before
        if not all(bool(tensor.isfinite().all()) for tensor in self.model.parameters()):
            raise Stopped("too late")


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_not_finite_stops_before_the_update(
    factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NotFinite, "factor", factor)
    check_stop(tmp_path / "right")
    must_fail(check_stop, tmp_path / "wrong", ChecksTooLate)


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(Stopped, match=r"no longer finite|the loss is"):
        fit(
            tmp_path,
            {"train.rate": 1e30, "train.warmup": 0, "train.clip": 0.0, "train.save_every": "1 step"},
        )
    found = newest(tmp_path / "checkpoints")
    assert found is None or all(
        tensor.isfinite().all() for tensor in from_bytes(found.files["weights.safetensors"]).values()
    )


def test_the_best_weights_are_kept_and_can_be_found_in_the_journal(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    progress = made.fit()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [*range(7, STEPS, 7), STEPS]
    best = max(line["validation"]["accuracy"] for line in lines)
    assert progress.best == best
    assert progress.best_step == max(line["step"] for line in lines if line["validation"]["accuracy"] == best)
    saved = next(made.folder.best())
    assert saved.progress.step == progress.best_step


@pytest.mark.parametrize(("epochs", "steps"), [(0.4, 6), (1.6, 24), (2, 30), (1e-9, 1)])
def test_epochs_need_not_be_whole(tmp_path: Path, epochs: float, steps: int) -> None:
    progress = fit(tmp_path, {"train.epochs": epochs})
    assert progress is not None
    assert (progress.step, progress.evaluated) == (steps, steps)


def test_an_epoch_of_little_data_is_several_passes(tmp_path: Path) -> None:
    made = trainer(tmp_path, {"train.epoch_steps": 37, "train.epochs": 2, "train.evaluate_every": "1 epoch"})
    assert made.fit().step == 74
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["epoch"]) for line in lines] == [(37, 1), (74, 2)]
    passes = [[made._batch(i + start).index for i in range(15)] for start in (0, 15, 30)]
    seen = [torch.cat(one).tolist() for one in passes]
    assert all(sorted(one) == list(range(len(one))) for one in seen)
    assert seen[0] != seen[1] != seen[2]


def test_an_epoch_is_never_less_than_one_pass(tmp_path: Path) -> None:
    progress = fit(tmp_path, {"train.epoch_steps": 7, "train.epochs": 1})
    assert progress is not None
    assert progress.step == 15


def check_rates(path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    rates = list[float]()
    monkeypatch.setattr(Optimiser, "step", lambda _, rate: rates.append(rate))
    fit(path, {"train.rate": 0.5} | settings)
    assert max(rates) == 0.5
    assert rates.index(0.5) <= STEPS // 4
    assert rates[-1] < 0.01


def test_a_short_run_reaches_its_peak_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rates(tmp_path / "short", monkeypatch, {"train.warmup": 10 * STEPS})
    must_fail(check_rates, tmp_path / "constant", monkeypatch, {"train.schedule": "constant"})


def test_accuracies_are_rounded_down_but_not_by_binary_rounding_errors() -> None:
    assert show_metric("accuracy", 0.57) == "57.00 %"
    assert show_metric("accuracy", 0.99999) == "99.99 %"


def test_a_run_ends_when_the_metric_stops_improving(tmp_path: Path) -> None:
    progress = fit(tmp_path, {"train.rate": 1e-9, "train.patience": 2})
    assert progress is not None
    assert progress.step == 21  # the first evaluation is the best; two more follow


def test_a_run_ends_after_the_given_number_of_perfect_evaluations(tmp_path: Path) -> None:
    easy = {
        "task.data.symbols": 2,
        "model.dropout": 0.0,
        "train.rate": 2e-2,
        "train.epochs": 100,
        "train.batch": 50,
    }
    steps = {}
    for times in (1, 3):
        progress = fit(tmp_path / str(times), easy | {"train.perfect": times})
        assert progress is not None
        assert progress.best == 1.0
        steps[times] = progress.step
    assert steps[3] >= steps[1] + 14


def test_schedules_rise_to_one_and_then_follow_their_formulas() -> None:
    warmup, total = 7, 101
    for schedule in SCHEDULES.values():
        rates = [schedule(step, warmup, total) for step in range(total)]
        assert rates[:warmup] == pytest.approx([(i + 1) / warmup for i in range(warmup)])
        assert max(rates) == 1.0
        assert schedule(0, 0, total) == 1.0
    assert SCHEDULES["cosine"](total - 1, warmup, total) < 1e-3
    assert SCHEDULES["cosine"]((warmup + total) // 2, warmup, total) == pytest.approx(0.5)
    assert SCHEDULES["inverse-root"](4 * warmup - 1, warmup, total) == pytest.approx(0.5)
    assert SCHEDULES["constant"](total - 1, warmup, total) == 1.0


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 5), nn.LayerNorm(5))


def test_the_flat_optimiser_equals_torchs_adamw() -> None:
    """With decay of matrices only, and one norm of all gradients for clipping."""
    ours, theirs = small(), small()
    flat = Optimiser(ours, decay=0.3)
    matrices = [p for p in theirs.parameters() if p.dim() == 2]
    others = [p for p in theirs.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0}]
    each = torch.optim.AdamW(groups, lr=0.05)
    for step in range(11):
        words = torch.randint(7, (13,))
        flat.zero_grad()
        (ours(words) * torch.arange(5)).square().sum().backward()
        flat.clip(2.0)
        flat.step(0.05)
        each.zero_grad()
        (theirs(words) * torch.arange(5)).square().sum().backward()
        norm = nn.utils.clip_grad_norm_(theirs.parameters(), 2.0)
        each.step()
        assert norm > 2.0, step
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_norms_and_biases_do_not_decay() -> None:
    model = small()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimiser = Optimiser(model, decay=0.1)
    optimiser.zero_grad()
    optimiser.step(0.5)
    moved = {name for name, parameter in model.named_parameters() if not parameter.equal(before[name])}
    assert moved == {"0.weight", "1.weight"}


def test_tied_weights_are_stored_once_and_are_tied_after_loading() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    content = from_bytes(to_bytes(weights_of(model)))
    assert list(content) == ["0.weight"]
    other = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    other[1].weight = other[0].weight
    load_weights(other, content)
    assert torch.equal(other.get_parameter("1.weight"), model.get_parameter("0.weight"))


@pytest.mark.parametrize("settings", [{"train.precision": "bfloat16"}, {"train.smoothing": 0.1}])
def test_bfloat16_and_label_smoothing_train_and_give_other_results(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    learns = {"train.rate": 1e-2, "model.dropout": 0.0}
    plain = fit(tmp_path / "plain", learns)
    other = fit(tmp_path / "other", learns | settings)
    assert plain is not None
    assert other is not None
    first, *_, last = [
        json.loads(line) for line in (tmp_path / "other" / "metrics.jsonl").read_text().splitlines()
    ]
    assert last["train"]["loss"] < first["train"]["loss"]
    assert (tmp_path / "plain" / "metrics.jsonl").read_text() != (
        tmp_path / "other" / "metrics.jsonl"
    ).read_text()
