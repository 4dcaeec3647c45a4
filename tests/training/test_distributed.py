"""R3 with two real processes under torchrun: the loss curve of one process, the same bits after resuming."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from read_logs import mlflow_scalars, tensorboard_scalars
from support import must_fail
from tiny import fit

import limelight
from limelight.training.distributed import World
from limelight.training.journal import read_journal

TOGETHER = Path(__file__).parent / "together.py"


def torchrun(*arguments: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_curves(one: Path, two: Path) -> None:
    ours, theirs = read_journal(one / "metrics.jsonl"), read_journal(two / "metrics.jsonl")
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for a, b in zip(ours, theirs, strict=True):
        for split in ("train", "validation"):
            assert a[split]["loss"] == pytest.approx(b[split]["loss"], rel=1e-3)


def test_two_processes_have_the_loss_curve_of_one_and_resume_to_the_same_bits(tmp_path: Path) -> None:
    check_resume(tmp_path, "3", "60", "11")
    fit(tmp_path / "one", {"model.dropout": 0.0})
    check_curves(tmp_path / "one", tmp_path / "two")
    fit(tmp_path / "half", {"model.dropout": 0.0, "train.batch": 5, "train.epochs": 2})
    must_fail(check_curves, tmp_path / "half", tmp_path / "two")


def check_resume(folder: Path, *steps: str) -> None:
    found = [json.loads(line) for line in torchrun(str(TOGETHER), str(folder), *steps).splitlines()]
    assert [outcome["step"] for outcome in found] == list(range(*map(int, steps)))
    assert all(outcome["same"] and outcome["together"] for outcome in found), found


@pytest.mark.torture
def test_two_processes_resume_at_every_step_to_the_same_bits(tmp_path: Path) -> None:
    check_resume(tmp_path, "1", "61")


def test_the_command_line_runs_under_torchrun_and_one_process_prints_and_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["--set", "train.epochs=1", "--set", "task.data.train=500", "--set", "task.data.test=100"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "mlruns"))
    settings += ["--out", str(tmp_path / "run"), "--log", "tensorboard", "--log", "mlflow"]
    # Without "--", torchrun takes --log for one of its own options, --log-dir or --logs-specs.
    printed = torchrun("-m", "--", "limelight", "train", "reverse", *settings)
    assert printed.count("reverse: done") == 1
    assert (tmp_path / "run" / "attention.png").is_file()
    (steps, _), *others = tensorboard_scalars(tmp_path / "run")["validation/loss"]
    assert (steps, others) == (4, [])
    assert mlflow_scalars(tmp_path / "mlruns", "run", "reverse")["validation/loss"][0][0] == 4


PREDICT = """
import os
from pathlib import Path
import limelight
folder = Path(__file__).parent
small = {"train.epochs": 1, "task.data.train": 500, "task.data.test": 100}
run = limelight.train("reverse", small, out=folder / "run")
(folder / f"{os.environ['RANK']}.txt").write_text(run.predict([run.sample])[0].text)
"""


def test_every_process_returns_the_run(tmp_path: Path) -> None:
    program = tmp_path / "predict.py"
    program.write_text(PREDICT)
    torchrun(str(program))
    run = limelight.open_run(tmp_path / "run")
    expected = run.predict([run.sample])[0].text
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in range(2)] == [expected, expected]


def test_a_world_of_one_process_changes_nothing() -> None:
    world = World()
    gradient = torch.ones(3)
    assert world.all_reduce([1.5, 2.0]) == [1.5, 2.0]
    assert world.broadcast(b"state") == b"state"
    world.all_reduce_gradient(gradient)
    assert torch.equal(gradient, torch.ones(3))
