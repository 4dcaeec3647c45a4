"""Head importance, and a run whose heads are switched off."""

import json
from pathlib import Path

import pytest
import torch
from command import command
from support import EXACT, must_fail

import limelight
from limelight.experiment import Run
from limelight.experiment.importance import head_importance
from limelight.view import intervene, off


@pytest.fixture(scope="module")
def reverse(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The recipe itself: one layer with one head."""
    return limelight.train("reverse", out=tmp_path_factory.mktemp("runs") / "reverse")


@pytest.fixture(scope="module")
def majority(tmp_path_factory: pytest.TempPathFactory) -> Run:
    small = {"model.depth": 2, "model.heads": 2, "model.width": 16, "model.hidden": 16}
    data = {"task.data.train": 2000, "task.data.validation": 200, "task.data.test": 200, "train.epochs": 2}
    return limelight.train("majority", small | data, out=tmp_path_factory.mktemp("runs") / "majority")


def test_reverse_without_its_only_head_falls_to_chance(reverse: Run) -> None:
    assert reverse.evaluate()["accuracy"] > 0.99
    with intervene(reverse.model, {"encoder.encoder.blocks.0.self_attention": off(0)}):
        assert 0.07 < reverse.evaluate()["accuracy"] < 0.13  # one of ten symbols


def test_without_changes_the_predictions_are_the_same_to_the_bit(reverse: Run) -> None:
    batch = reverse.dataset.batch("test", torch.arange(50))
    with torch.no_grad():
        expected = reverse.model(*reverse.task.arguments(batch))
        with intervene(reverse.model, {}):
            torch.testing.assert_close(reverse.model(*reverse.task.arguments(batch)), expected, **EXACT)


def check_agrees_with_evaluate(run: Run, name: str, head: int, accuracy: float) -> None:
    with intervene(run.model, {name: off(head)}):
        assert accuracy == pytest.approx(run.evaluate()["accuracy"], abs=1e-6)


def test_every_head_is_ranked_by_what_the_metric_loses_without_it(majority: Run) -> None:
    found = head_importance(majority)
    assert found.examples == 200  # the whole split
    assert found.whole["accuracy"] == pytest.approx(majority.evaluate()["accuracy"])
    assert len(found.heads) == len({(one.name, one.head) for one in found.heads}) == 4
    lost = [one.lost for one in found.heads]
    assert lost == sorted(lost, reverse=True)
    for one in found.heads:
        assert one.lost == pytest.approx(found.whole["accuracy"] - one.metrics["accuracy"])
        check_agrees_with_evaluate(majority, one.name, one.head, one.metrics["accuracy"])
    best, worst = found.heads[0], found.heads[-1]
    assert best.metrics["accuracy"] < worst.metrics["accuracy"]
    must_fail(check_agrees_with_evaluate, majority, best.name, best.head, worst.metrics["accuracy"])


def test_the_command_prints_the_heads_and_writes_what_is_asked_for(majority: Run, tmp_path: Path) -> None:
    for name in ("page.html", "bars.png", "data.json"):
        done = command("see", str(majority.path), "--importance", "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == str(tmp_path / name)
        assert done.stdout.count("lost") == 4
    assert "accuracy lost without each head" in (tmp_path / "page.html").read_text()
    assert len(json.loads((tmp_path / "data.json").read_text())["heads"]) == 4


def test_importance_of_a_script_is_refused(tmp_path: Path) -> None:
    done = command("see", "model.py::example", "--importance")
    assert done.returncode == 2
    assert "--importance needs a run folder" in done.stderr
