"""R4 and R6 with real processes: a signal saves the run before it ends; one process trains per run folder."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import STARTED, kill_started, not_none

from limelight.errors import Stopped
from limelight.training.checkpoint import newest
from limelight.training.journal import read_journal
from limelight.training.lock import locked

SMALL = {"task.data.train": 500, "task.data.validation": 50, "task.data.test": 50, "model.width": 8}
ENDLESS = {"train.epochs": 100_000, "train.perfect": 0, "train.save_every": "20 steps"}
LONG = ["reverse", *(f"--set={key}={value}" for key, value in (SMALL | ENDLESS).items())]


_kill_processes = pytest.fixture(autouse=True)(kill_started)


def start(*arguments: str, sighup: signal.Handlers = signal.SIG_DFL) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "limelight", "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # The tests themselves may have been started by nohup, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, sighup),
    )
    STARTED.append(process)
    return process


def wait_for_checkpoint(folder: Path) -> None:
    end = time.monotonic() + 120
    while not list(folder.glob("checkpoints/step-*")):
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_for_library(process: subprocess.Popen[str], name: str) -> None:
    maps = Path(f"/proc/{process.pid}/maps")
    end = time.monotonic() + 120
    while name not in maps.read_text():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_saves_the_run_and_prints_how_to_resume(number: int, code: int, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(*LONG, "--out", str(run))
    wait_for_checkpoint(run)
    process.send_signal(number)
    out, errors = process.communicate(timeout=5)
    assert process.returncode == code
    assert out == ""
    last = errors.splitlines()[-1]
    assert last.startswith("limelight: stopped at step ")
    assert last.endswith(f" and saved; resume with: python -m limelight train {run} --resume")
    found = newest(run / "checkpoints")
    assert found is not None
    assert f"at step {found.step} of" in last


def test_only_one_process_trains_in_a_folder_and_a_kill_frees_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start(*LONG, "--out", str(run))
    wait_for_checkpoint(run)
    second = start(*LONG, "--out", str(run), "--resume")
    _, errors = second.communicate(timeout=120)
    assert second.returncode == 2
    assert f"is in use by process {first.pid} on " in errors.splitlines()[-1]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    step = not_none(newest(run / "checkpoints")).step
    third = start(str(run), "--resume")
    while f"step {step} of" not in not_none(third.stderr).readline():
        assert third.poll() is None
    third.send_signal(signal.SIGINT)
    third.communicate(timeout=5)
    assert third.returncode == 130


def test_a_run_whose_folder_was_replaced_stops_and_the_new_run_continues(tmp_path: Path) -> None:
    """R6: the folder of a run is removed, and another run starts in its place."""
    run = tmp_path / "run"
    first = start(*LONG, "--out", str(run))
    wait_for_checkpoint(run)
    shutil.rmtree(run)
    second = start(*LONG, "--set", "seed=2", "--out", str(run))
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 1
    assert errors.splitlines()[-1] == (
        f"limelight: {run} was removed or replaced while this run was writing to it; the run stops here"
    )
    assert "Traceback" not in errors
    wait_for_checkpoint(run)
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=10)
    assert second.returncode == 130
    steps = [line["step"] for line in read_journal(run / "metrics.jsonl")]
    assert steps == sorted(set(steps))
    assert not_none(newest(run / "checkpoints")).facts["environment"]["settings"]["seed"] == 2


def test_a_lock_detects_that_its_file_was_replaced(tmp_path: Path) -> None:
    with locked(tmp_path / "run") as lock:
        lock.check()
        (tmp_path / "run" / "lock").rename(tmp_path / "elsewhere")
        with pytest.raises(Stopped, match="removed or replaced"):
            lock.check()
        (tmp_path / "run" / "lock").touch()
        with pytest.raises(Stopped, match="removed or replaced"):
            lock.check()


def test_a_new_folder_is_removed_if_nothing_was_written_into_it(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        with pytest.raises(ValueError, match="refused"), locked(tmp_path / name):
            raise ValueError("refused")
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_of_processes_that_race_for_a_folder_exactly_one_wins(tmp_path: Path) -> None:
    """Five processes try at the same moment; the winner keeps the lock until all have tried."""
    program = """
import sys
from pathlib import Path
from limelight.errors import WrongInput
from limelight.training.lock import locked
print("ready", flush=True)
sys.stdin.readline()
try:
    with locked(Path(sys.argv[1])):
        print("won", flush=True)
        sys.stdin.readline()
except WrongInput as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    pipe = subprocess.PIPE
    racers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) for _ in range(5)]
    assert {not_none(racer.stdout).readline() for racer in racers} == {"ready\n"}
    for racer in racers:
        not_none(racer.stdin).write("go\n")
    printed = [not_none(racer.stdout).readline().strip() for racer in racers]
    for racer in racers:
        racer.communicate()  # closes stdin, which releases the lock
    assert printed.count("won") == 1
    winner = racers[printed.index("won")].pid
    assert sum(f"process {winner} on" in line for line in printed) >= 1
    assert all("is in use by" in line for line in printed if line != "won")


def test_a_signal_before_the_first_step_prints_one_line(tmp_path: Path) -> None:
    """While a large phrasebook is generated, when there is nothing to save."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    arguments = ("translate", "--set", "task.data.train=60000", "--out", str(tmp_path / "run"))
    processes = [start(*arguments) for _ in numbers]
    for number, process in zip(numbers, processes, strict=True):
        wait_for_library(
            process, "sentencepiece"
        )  # the last one that is imported before the data is generated
        process.send_signal(number)
        out, errors = process.communicate(timeout=30)
        assert process.returncode == 128 + number
        assert (out, errors) == ("", f"limelight: stopped by {number.name}\n")
    assert not (tmp_path / "run").exists()


def test_a_run_under_nohup_ignores_sighup(tmp_path: Path) -> None:
    process = start(*LONG, "--out", str(tmp_path / "run"), sighup=signal.SIG_IGN)
    wait_for_checkpoint(tmp_path / "run")
    process.send_signal(signal.SIGHUP)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 143


def test_in_another_thread_signals_are_not_deferred() -> None:
    program = """
import threading
from limelight.training.interrupt import deferred_signals
def work():
    with deferred_signals() as signals:
        assert signals.number == 0
thread = threading.Thread(target=work); thread.start(); thread.join()
"""
    assert subprocess.run([sys.executable, "-c", program], env=os.environ).returncode == 0
