"""Submissions are found in plain folders and in the downloads of learning platforms."""

from pathlib import Path

import pytest
from support import refused

from limelight.check.marking.submissions import find_submissions


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    return folder


def found(folder: Path) -> list[tuple[str, str, list[str]]]:
    return [(one.name, one.identifier, sorted(one.files)) for one in find_submissions(folder)]


def test_files_and_folders(tmp_path: Path) -> None:
    write(
        tmp_path, "bob/hw.py", "bob/lib/utils.py", "bob/.git/x.py", "Ada.ipynb", "notes.txt", "cy/report.pdf"
    )
    (tmp_path / "bob" / "link.py").symlink_to("/etc/passwd")
    assert found(tmp_path) == [
        ("Ada", "", ["Ada.ipynb"]),
        ("bob", "", ["hw.py", "lib/utils.py"]),
        ("cy", "", ["report.pdf"]),
    ]
    assert found(tmp_path / "Ada.ipynb") == [("Ada", "", ["Ada.ipynb"])]


def test_moodle(tmp_path: Path) -> None:
    write(
        tmp_path,
        "Ada Lovelace_11_assignsubmission_file_/hw.py",
        "Ada Lovelace_12_assignsubmission_file/hw.py",
        "Bob_Joe_13_assignsubmission_file_hw 1.py",
        "Bob_Joe_13_assignsubmission_file_utils.py",
    )
    assert found(tmp_path) == [
        ("Ada Lovelace", "11", ["hw.py"]),
        ("Ada Lovelace", "12", ["hw.py"]),
        ("Bob_Joe", "13", ["hw 1.py", "utils.py"]),
    ]
    assert [one.key for one in find_submissions(tmp_path)] == [
        "Ada Lovelace_11",
        "Ada Lovelace_12",
        "Bob_Joe_13",
    ]


def test_canvas(tmp_path: Path) -> None:
    write(
        tmp_path, "lovelaceada_11_99_hw.py", "lovelaceada_11_98_my_utils.py", "joebob_LATE_12_97_hw-1.ipynb"
    )
    assert found(tmp_path) == [
        ("joebob", "12", ["hw-1.ipynb"]),
        ("lovelaceada", "11", ["hw.py", "my_utils.py"]),
    ]


def test_gradescope(tmp_path: Path) -> None:
    write(tmp_path, "submission_11/hw.py", "submission_12/hw.py", "submission_13/hw.py")
    (tmp_path / "submission_metadata.yml").write_text(
        "---\nsubmission_11:\n  :submitters:\n  - :name: Ada Lovelace\n    :sid: '7'\n  :score: 1\n"
        "submission_12:\n  :submitters:\n  - :name: 'Bob'\n    :sid: '8'\n  - :name: Cy\n"
    )
    assert [(name, number) for name, number, _ in found(tmp_path)] == [
        ("Ada Lovelace", "11"),
        ("Bob, Cy", "12"),
        ("submission_13", "13"),
    ]


def test_keys_are_unique_and_safe(tmp_path: Path) -> None:
    write(tmp_path, "=cmd|calc.py", "=cmd:calc.py", "+++.py", "ÉVE.py", "a" * 200 + ".py")
    keys = [one.key for one in find_submissions(tmp_path)]
    assert len({key.casefold() for key in keys}) == len(keys) == 5
    for key in keys:
        assert not set(key) & set("=|:/.+\\")
        assert key == key.strip()
        assert 0 < len(key) < 70


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_without_submissions_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, "empty/notes.txt")
    assert name in refused(find_submissions, tmp_path / name)
