"""Files, locks and time limits on systems that do not have everything."""

import sys
from pathlib import Path

import pytest

from limelight.systems import NO_LOCKS, c_function, is_named, try_lock


def test_a_locked_file_cannot_be_locked_again_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as first:
        assert try_lock(first)
        with path.open("ab") as second:
            assert not try_lock(second)
    with path.open("ab") as second:
        assert try_lock(second)


def test_a_system_without_locks_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fcntl", "msvcrt"):
        monkeypatch.setitem(sys.modules, name, None)
    with (tmp_path / "file").open("wb") as file, pytest.warns(UserWarning, match=f"^{NO_LOCKS}$"):
        assert try_lock(file)


def test_a_file_loses_its_name_when_it_is_renamed_removed_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        assert is_named(file, path)
        path.rename(tmp_path / "other")
        assert not is_named(file, path)
        path.touch()
        assert not is_named(file, path)


def test_a_function_that_the_c_library_does_not_have_is_none() -> None:
    assert c_function("no_such_function") is None
