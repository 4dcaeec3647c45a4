"""The display of progress: a bar that fits a terminal of 80 columns, and a line per phase elsewhere."""

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest
from command import command
from support import must_fail

from limelight.progress import shown_by, track

SETTINGS = ["task.data.limit=300", "train.epochs=3", "train.batch=10", "train.perfect=0"]
ARGUMENTS = [part for setting in SETTINGS for part in ("--set", setting)]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def lines_of_terminal(*arguments: str, columns: int) -> list[str]:
    """What a command writes to stderr, a terminal of this width, without colours; each update is a line."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    for name in ("COLUMNS", "NO_COLOR", "CI"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-m", "limelight", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=follower,
        env=environment,
    )
    os.close(follower)
    written = b""
    while process.poll() is None or select.select([leader], [], [], 0)[0]:
        try:
            if select.select([leader], [], [], 0.1)[0]:
                written += os.read(leader, 65_536)
        except OSError:  # the command has closed the terminal
            break
    os.close(leader)
    assert process.wait() == 0, written.decode()
    return [line.rstrip() for line in re.split(r"[\r\n]+", CONTROL.sub("", written.decode()))]


def check_display(lines: list[str], columns: int) -> None:
    assert max(map(len, lines)) <= columns
    (first, *_) = [line for line in lines if line.startswith("training ") and "loss" in line]
    assert re.fullmatch(r"training [━╸╺]+ +\d+/90 loss \d\.\d{4} [-\d:]+", first), first
    assert sum(line.startswith("  validation loss") for line in lines) == 3
    for phase in ("loading the data", "evaluating the best weights on the test split", "drawing the figures"):
        assert any(line.startswith(phase) for line in lines), phase


def test_the_display_fits_80_columns(tmp_path: Path) -> None:
    lines = lines_of_terminal("train", "majority", *ARGUMENTS, "--out", str(tmp_path / "run"), columns=80)
    check_display(lines, 80)
    must_fail(check_display, [*lines, "x" * 81], 80)


def test_without_a_terminal_every_phase_is_one_line(tmp_path: Path) -> None:
    done = command("train", "majority", *ARGUMENTS, "--out", str(tmp_path / "run"))
    phases = [line for line in done.stderr.splitlines() if not line.startswith("step ")]
    evaluating = [f"evaluating the best weights on the {split} split" for split in ("validation", "test")]
    assert phases == [*evaluating, "drawing the figures"]


def test_progress_is_reported_only_inside_the_context() -> None:
    seen = list[tuple[int, int]]()
    with shown_by(lambda done, total: seen.append((done, total))):
        assert list(track("ab", 2)) == ["a", "b"]
    assert list(track("cde", 3)) == ["c", "d", "e"]
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_the_display_ends_with_its_context() -> None:
    seen = list[int]()
    with pytest.raises(KeyError), shown_by(lambda done, _: seen.append(done)):
        raise KeyError
    list(track("ab", 2))
    assert not seen
