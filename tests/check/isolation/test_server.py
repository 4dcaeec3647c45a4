"""Code that works against the check: it cannot forge results, outlive its check, or affect other files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from limelight.check.isolation.parent import Limits, check_file
from limelight.check.report import FileReport, Report

SOFTMAX = """
import json, os, subprocess, sys, time
import torch

def masked_softmax(scores, mask=None):
    {body}
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    return scores.softmax(-1)
"""
QUICK = Limits(seconds=4, file_seconds=8, output=1 << 20)
FORGED = Report(name="masked_softmax", kind="masked-softmax").model_dump_json()
TO_ALL_PIPES = """
    for number in range(3, 200):
        try:
            {write}
        except OSError:
            pass
"""


def checked(folder: Path, body: str) -> FileReport:
    path = folder / "soft.py"
    path.write_text(SOFTMAX.format(body=body.strip()))
    return check_file(path, limits=QUICK)


def test_correct_code_passes(tmp_path: Path) -> None:
    found = checked(tmp_path, "pass")
    assert found.exit_code() == 0


@pytest.mark.parametrize(
    "write",
    [
        "os.write(number, b'garbage\\n')",
        f"os.write(number, json.dumps({{'report': {FORGED!r}}}).encode() + b'\\n')",
        "os.write(number, b'[' * 100000 + b'\\n')",
        "os.write(number, b'x' * (400 << 20))",
    ],
    ids=["garbage", "forged", "nested", "400 MB"],
)
def test_results_that_the_code_writes_itself_are_not_accepted(tmp_path: Path, write: str) -> None:
    found = checked(tmp_path, TO_ALL_PIPES.format(write=write) + "\n    os._exit(0)")
    assert "wrote to the channel of the results" in found.trouble
    assert found.reports == ()
    assert found.exit_code() == 2


def test_lines_without_end_do_not_extend_the_time(tmp_path: Path) -> None:
    write = "[os.write(number, b'{}\\n') or time.sleep(0.1) for _ in range(10**9)]"
    begin = time.monotonic()
    found = checked(tmp_path, TO_ALL_PIPES.format(write=write))
    assert found.exit_code() == 2
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    ("patch", "name"),
    [
        ("torch.softmax = lambda *_, **__: None", "torch.softmax"),
        ("import limelight.check.examine as e; e.examine = None", "limelight.check.examine.examine"),
        ("import builtins; builtins.sorted = list", "builtins.sorted"),
    ],
    ids=["torch", "limelight", "builtins"],
)
def test_replaced_functions_are_reported(tmp_path: Path, patch: str, name: str) -> None:
    found = checked(tmp_path, patch)
    assert f"it changes {name}" in found.trouble
    assert found.exit_code() in (1, 2)


SLEEP = (
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {mark!r}], "
    "start_new_session=True)"
)


def running(mark: str) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", f"sleep.600.*{mark}"], capture_output=True, text=True
    ).stdout.split()
    return [int(pid) for pid in found if int(pid) != os.getpid()]


def test_processes_that_the_code_starts_end_with_its_check(tmp_path: Path) -> None:
    mark = f"child{os.getpid()}"
    checked(tmp_path, SLEEP.format(mark=mark))
    assert running(mark) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_if_the_command_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    mark = f"orphan{os.getpid()}{int(number)}"
    (tmp_path / "soft.py").write_text(SOFTMAX.format(body=f"{SLEEP.format(mark=mark)}; time.sleep(60)"))
    process = subprocess.Popen(
        [sys.executable, "-m", "limelight", "check", str(tmp_path / "soft.py")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: bool(running(mark)), 60)  # the code runs: the control of this test
    process.send_signal(number)
    process.wait(timeout=10)
    wait_until(lambda: not running(mark), 5)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_a_shared_mapping_is_limited(tmp_path: Path) -> None:
    found = checked(
        tmp_path, "import mmap; big = mmap.mmap(-1, 7 << 30); big[::4096] = b'x' * ((7 << 30) // 4096)"
    )
    (report,) = found.reports
    assert "Cannot allocate memory" in report.trouble


def test_large_files_are_not_written(tmp_path: Path) -> None:
    found = checked(tmp_path, f"open({str(tmp_path / 'big')!r}, 'wb').write(b'x' * (100 << 20))")
    assert found.exit_code() in (1, 2)
    assert (tmp_path / "big").stat().st_size <= 64 << 20
