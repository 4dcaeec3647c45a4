"""R1 and R2: a run that is killed by SIGKILL at any moment loses nothing that it had saved."""

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import must_fail
from tiny import fit, result

from limelight.errors import Stopped
from limelight.training import checkpoint, files
from limelight.training.checkpoint import Checkpoint

Save = Callable[[Path, Checkpoint], None]

KILLS = Path(__file__).parent / "kills.py"


def outcomes(*arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, str(KILLS), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_kills(trials: int, recipe: str = "majority") -> None:
    found = outcomes("moments", str(trials), "1", recipe)
    assert len(found) == trials
    assert all(outcome["same"] for outcome in found)
    saves = [outcome for outcome in found if outcome["in_a_save"]]
    assert len(saves) >= trials // 5
    assert all(outcome["killed"] for outcome in saves)
    assert sum(outcome["killed"] for outcome in found) > trials // 2


def test_eight_kills_at_random_moments_change_no_bit() -> None:
    check_kills(8)


@pytest.mark.parametrize("recipe", ["tag", "language"])
def test_kills_of_other_recipes_change_no_bit(recipe: str) -> None:
    check_kills(8, recipe)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_two_hundred_kills_at_random_moments_change_no_bit() -> None:
    check_kills(200)


def check_operations(*variant: str) -> None:
    found = outcomes("operations", *variant)
    assert len(found) > 10
    assert all(outcome["same"] for outcome in found), found


def test_a_kill_at_any_operation_of_a_save_leaves_an_intact_checkpoint() -> None:
    check_operations()
    must_fail(check_operations, "broken")


def create(step: int, score: int | None = None) -> Checkpoint:
    facts = {"score": -step if score is None else score}
    return Checkpoint(step, facts, {"weights": bytes([step]) * 997, "data": b"{}"})


@contextlib.contextmanager
def failing(operation: int, number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let the file operation with this number fail, and ignore the error; yields the number of operations."""
    count = [0]

    def perform(act: Callable[..., Any], *arguments: Any) -> Any:
        count[0] += 1
        if count[0] == operation:
            raise OSError(number, os.strerror(number))
        return act(*arguments)

    with monkeypatch.context() as patch, contextlib.suppress(OSError):
        patch.setattr(files, "perform", perform)
        yield count


def check_save(path: Path, operation: int, number: int, save: Save, monkeypatch: pytest.MonkeyPatch) -> bool:
    """If this operation fails, the last good checkpoint stays. Returns whether the operation exists."""
    for step in (1, 2, 3):
        checkpoint.save(path, create(step))
    with failing(operation, number, monkeypatch) as count:
        save(path, create(4))
    found = checkpoint.newest(path)
    assert found is not None
    assert found == create(found.step)
    assert found.step in (3, 4)
    checkpoint.save(path, create(5))
    assert checkpoint.newest(path) == create(5)
    return count[0] >= operation


def check_second_save(
    path: Path, operation: int, number: int, save: Save, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """The same while the only checkpoint is written again."""
    checkpoint.save(path, create(5))
    with failing(operation, number, monkeypatch) as count:
        save(path, create(5, score=7))
    assert checkpoint.newest(path) in (create(5), create(5, score=7))
    checkpoint.save(path, create(5, score=8))
    assert checkpoint.newest(path) == checkpoint.best(path) == create(5, score=8)
    assert [place.name for place in path.glob("step-*")] == ["step-00000005"]
    return count[0] >= operation


def save_after_removing(folder: Path, new: Checkpoint) -> None:
    for old in folder.glob("step-*"):
        files.remove(old)
    checkpoint.save(folder, new)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=errno.errorcode.get)
@pytest.mark.parametrize("check", [check_save, check_second_save])
def test_an_error_at_any_operation_of_a_save_leaves_an_intact_checkpoint(
    check: Callable[..., bool], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = 1
    while check(tmp_path / str(operation), operation, number, checkpoint.save, monkeypatch):
        operation += 1
    assert operation > 10
    must_fail(check, tmp_path / "broken", 10, number, save_after_removing, monkeypatch)


def test_a_full_disk_stops_the_run_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal and older checkpoints stay; resumed from them, the run ends with the same bits."""
    fit(tmp_path / "whole")

    def perform(act: Callable[..., Any], *arguments: Any) -> Any:
        if act is os.write and len(list((tmp_path / "full" / "checkpoints").glob("step-*"))) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return act(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(files, "perform", perform)
        with pytest.raises(Stopped, match=r"step 10 could not be saved in .*: No space left on device"):
            fit(tmp_path / "full")
    fit(tmp_path / "full", resume=True)
    assert result(tmp_path / "full") == result(tmp_path / "whole")
