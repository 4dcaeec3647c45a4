"""R4 and R6 with real processes: signals save and say how to go on; a folder has one writer."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limelight.errors import Stopped
from limelight.training.checkpoint import newest
from limelight.training.journal import read_journal
from limelight.training.lock import locked

LONG = ["reverse", "--set", "train.epochs=1000", "--set", "train.perfect=0", "--set", "model.width=8"]


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "limelight", "train", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(folder: Path) -> None:
    """Until the run has saved something."""
    end = time.monotonic() + 120
    while not list(folder.glob("checkpoints/step-*")):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_saves_and_says_how_to_go_on(number: int, code: int, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(*LONG, "--out", str(run))
    wait_for(run)
    process.send_signal(number)
    out, errors = process.communicate(timeout=5)
    assert process.returncode == code
    assert out == ""
    last = errors.splitlines()[-1]
    assert last.startswith("limelight: stopped and saved at step ")
    assert last.endswith(f"go on: limelight train {run} --resume")
    found = newest(run / "checkpoints")
    assert found is not None
    assert f"at step {found.step} of" in last


def test_a_folder_has_one_writer_and_is_free_again_after_a_kill(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start(*LONG, "--out", str(run))
    wait_for(run)
    second = start(*LONG, "--out", str(run), "--resume")
    _, errors = second.communicate(timeout=120)
    assert second.returncode == 2
    assert f"is being written by process {first.pid} on " in errors.splitlines()[-1]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    step = newest(run / "checkpoints").step
    third = start(str(run), "--resume")
    while f"step {step} of" not in third.stderr.readline():
        assert third.poll() is None
    third.send_signal(signal.SIGINT)
    third.communicate(timeout=5)
    assert third.returncode == 130


def test_a_run_whose_folder_was_replaced_stops_and_the_other_one_goes_on(tmp_path: Path) -> None:
    """R6: somebody removed the folder of a run and began another one in its place."""
    run = tmp_path / "run"
    often = ["--set", "train.evaluate_every=20 steps"]
    first = start(*LONG, *often, "--out", str(run))
    wait_for(run)
    shutil.rmtree(run)
    second = start(*LONG, *often, "--set", "seed=2", "--out", str(run))
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 1
    assert errors.splitlines()[-1] == (
        f"limelight: {run} was removed or replaced while this run was writing to it: the run ends here"
    )
    assert "Traceback" not in errors
    wait_for(run)
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=10)
    assert second.returncode == 130
    steps = [line["step"] for line in read_journal(run / "metrics.jsonl")]
    assert steps == sorted(set(steps))
    assert newest(run / "checkpoints").facts["environment"]["settings"]["seed"] == 2


def test_a_lock_knows_whether_it_is_still_the_one_in_the_folder(tmp_path: Path) -> None:
    with locked(tmp_path / "run") as lock:
        lock.check()
        (tmp_path / "run" / "lock").rename(tmp_path / "elsewhere")
        with pytest.raises(Stopped, match="removed or replaced"):
            lock.check()
        (tmp_path / "run" / "lock").touch()
        with pytest.raises(Stopped, match="removed or replaced"):
            lock.check()


def test_a_folder_in_which_nothing_was_written_is_removed_again(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        with pytest.raises(ValueError, match="refused"), locked(tmp_path / name):
            raise ValueError("refused")
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_of_processes_that_race_for_a_folder_exactly_one_wins(tmp_path: Path) -> None:
    """Five take the lock at the same moment and hold it until all have tried."""
    program = """
import sys, time
from pathlib import Path
from limelight.errors import WrongInput
from limelight.training.lock import locked
folder, moment = Path(sys.argv[1]), float(sys.argv[2])
time.sleep(max(0, moment - time.time()))
try:
    with locked(folder):
        print("won", flush=True)
        time.sleep(2)
except WrongInput as refusal:
    print(refusal)
"""
    moment = time.time() + 2
    command = [sys.executable, "-c", program, str(tmp_path / "run"), str(moment)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(5)]
    said = [racer.communicate()[0].strip() for racer in racers]
    assert said.count("won") == 1
    winner = racers[said.index("won")].pid
    assert sum(f"process {winner} on" in line for line in said) >= 1
    assert all("is being written by" in line for line in said if line != "won")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_first_step_is_answered_with_a_line(number: int, tmp_path: Path) -> None:
    """While a large phrasebook is being made, and nothing is there that could be saved."""
    process = start("translate", "--set", "task.data.train=60000", "--out", str(tmp_path / "run"))
    time.sleep(4)
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert (out, errors) == ("", f"limelight: stopped by {signal.Signals(number).name}\n")
    assert not (tmp_path / "run").exists()


def test_a_run_that_ignores_the_end_of_its_terminal_goes_on(tmp_path: Path) -> None:
    """As under nohup."""
    command = [sys.executable, "-m", "limelight", "train", *LONG, "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_for(tmp_path / "run")
    process.send_signal(signal.SIGHUP)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 143


def test_a_run_in_another_thread_leaves_signals_alone() -> None:
    program = """
import threading
from limelight.training.interrupt import deferred
def work():
    with deferred() as signals:
        assert signals.number == 0
thread = threading.Thread(target=work); thread.start(); thread.join()
"""
    assert subprocess.run([sys.executable, "-c", program], env=os.environ).returncode == 0
