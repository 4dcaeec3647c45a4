"""On a busy machine threads spin less; results do not change."""

import subprocess
import sys

import pytest

from limelight import openmp

pytestmark = pytest.mark.skipif(openmp._waiting_time() is None, reason="no scheduler statistics here")

PROGRAM = """
import os, subprocess, sys, threading, time
import torch
from limelight.openmp import adaptive_spinning

def names():
    return {thread.name for thread in threading.enumerate()}

def compute_until_the_second_team_exists():
    end = time.monotonic() + 30
    while "limelight-team" not in names():
        assert time.monotonic() < end
        x @ x

torch.set_num_threads(2)
torch.manual_seed(1)
x = torch.randn(300, 300)
expected = x @ x
with adaptive_spinning():
    assert "limelight-observer" in names()
    with adaptive_spinning():  # nested: no second observer
        assert [t.name for t in threading.enumerate()].count("limelight-observer") == 1
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() + 1)]
    try:
        compute_until_the_second_team_exists()
        assert (x @ x).equal(expected)
    finally:
        for load in loads:
            load.kill()
            load.wait()
assert not any(name.startswith("limelight") for name in names())
assert (x @ x).equal(expected)
"""


def test_the_second_team_exists_only_while_the_machine_is_busy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_time_spent_waiting_for_a_core_is_counted() -> None:
    """Three programs on one core: each waits most of the time."""
    program = """
import os, time
from limelight.openmp import _waiting_time
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
print(_waiting_time())
end = time.monotonic() + 1
while time.monotonic() < end: pass
print(_waiting_time())
"""
    command = [sys.executable, "-c", program]
    together = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    waited = []
    for one in together:
        before, after = map(float, one.communicate()[0].split())
        waited.append(after - before)
    assert max(waited) > 0.3
    assert max(waited) < 30


def test_without_statistics_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "_waiting_time", lambda: None)
    with openmp.adaptive_spinning():
        assert not openmp._Observer.active
