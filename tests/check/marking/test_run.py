"""A class is marked: nobody is affected by the others, and each run writes the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from browser import needs_browser, opened
from classroom import HOSTILE, ORIGINALS, STYLES, make_class
from command import command

MASK = """
import torch
{extra}

def causal_mask(size):
    return torch.ones(size, size).{method}().bool()
"""
RUBRIC = """
title = "Masks"
seconds = 1
[parts.mask]
kind = "causal-mask"
points = { causality = 3 }
"""


def read_all(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def mark(folder: Path, *names: str) -> str:
    submissions, rubric, out = (str(folder / name) for name in names)
    done = command("mark", submissions, "--rubric", rubric, "--out", out)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(folder: Path) -> dict[str, list[str]]:
    lines = (folder / "marks.csv").read_text("utf-8-sig").splitlines()
    return {line.split(",")[0]: line.split(",")[1:] for line in lines}


@pytest.fixture
def masks(tmp_path: Path) -> Path:
    """Three students: Bob's module `utils` is wrong, and has the name of Ada's."""
    (tmp_path / "rubric.toml").write_text(RUBRIC)
    for name, method in (("Ada", "tril"), ("Bob", "triu")):
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "utils.py").write_text(f"import torch\ntriangle = torch.{method}\n")
        code = MASK.format(extra="from utils import triangle", method="bool")
        code = code.replace("torch.ones(size, size).bool()", "triangle(torch.ones(size, size))")
        (tmp_path / "class" / name / "hw.py").write_text(code)
    (tmp_path / "class" / "Cy.py").write_text(MASK.format(extra="while True: pass", method="tril"))
    (tmp_path / "class" / "Dan.py").write_text("class Endless:\n    while True: pass\n")
    return tmp_path


def test_modules_of_the_same_name_are_not_mixed_up(masks: Path) -> None:
    assert "4 submissions marked, 1 to look at" in mark(masks, "class", "rubric.toml", "out")
    found = rows(masks / "out")
    assert found["Ada"][1:4] == ["3", "3", "3"]
    assert found["Bob"][1] == "0"
    assert found["Cy"][1] == "3"  # a loop outside of definitions is not executed
    assert "loading it takes longer than 1 s" in found["Dan"][4]
    assert not list((masks / "class").rglob("__pycache__"))


def test_an_interrupted_run_continues_and_other_content_is_refused(masks: Path) -> None:
    mark(masks, "class", "rubric.toml", "out")
    before = read_all(masks / "out")
    # As if the run had been ended before Bob was finished.
    for name in ("marks.csv", "overview.html", "Bob/report.html", "Bob/results.json", "Bob/check.json"):
        (masks / "out" / name).unlink()
    (masks / "out" / "Bob").rmdir()
    (masks / "out" / ".tmp-Bob").mkdir()
    unchanged = (masks / "out" / "Ada" / "report.html").stat().st_mtime_ns
    mark(masks, "class", "rubric.toml", "out")
    assert read_all(masks / "out") == before
    assert (masks / "out" / "Ada" / "report.html").stat().st_mtime_ns == unchanged
    # A submission that has changed is checked again.
    (masks / "class" / "Bob" / "utils.py").write_text("import torch\ntriangle = torch.tril\n")
    mark(masks, "class", "rubric.toml", "out")
    assert rows(masks / "out")["Bob"][1] == "3"
    for content, message in (("# new\n" + RUBRIC, "marks of another rubric"), (RUBRIC, "such as mine.txt")):
        (masks / "rubric.toml").write_text(content)
        if "mine" in message:
            (masks / "out" / "mine.txt").write_text("mine")
        paths = [str(masks / name) for name in ("class", "rubric.toml", "out")]
        done = command("mark", paths[0], "--rubric", paths[1], "--out", paths[2])
        assert done.returncode == 2
        assert message in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_and_what_is_written_stays(masks: Path, number: signal.Signals) -> None:
    (masks / "rubric.toml").write_text(RUBRIC.replace("seconds = 1", "seconds = 60"))
    given = [str(masks / "class"), "--rubric", str(masks / "rubric.toml"), "--out", str(masks / "out")]
    process = subprocess.Popen([sys.executable, "-m", "limelight", "mark", *given], stderr=subprocess.PIPE)
    end = time.monotonic() + 100
    while not all((masks / "out" / name).exists() for name in ("Ada", "Bob", "Cy")):  # Dan's code hangs
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert len(errors.splitlines()) == 1
    assert sorted(path.name for path in (masks / "out").iterdir()) == ["Ada", "Bob", "Cy", "rubric.toml"]


def test_an_adapter_is_added_to_each_submission(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    odd = "import torch\n\ndef odd(*, n, unused):\n    return torch.ones(n, n).{}().bool()\n"
    (tmp_path / "class" / "Ada.py").write_text(odd.format("tril"))
    cells = [{"cell_type": "code", "source": odd.format("triu")}]
    (tmp_path / "class" / "Bob.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "class" / "Cy.py").write_text("def other():\n    pass\n")
    (tmp_path / "adapter.py").write_text("def adapted(size):\n    return odd(n=size, unused='xyzzy')\n")
    rubric = RUBRIC.replace("[parts", 'adapter = "adapter.py"\n[parts').replace(
        "kind =", 'name = "adapted"\nkind ='
    )
    (tmp_path / "rubric.toml").write_text(rubric)
    mark(tmp_path, "class", "rubric.toml", "out")
    found = rows(tmp_path / "out")
    assert found["Ada"][1] == "3"
    assert found["Bob"][1] == "0"
    assert found["Cy"][1] == "0"
    assert "# The adapter of the rubric" in (tmp_path / "out" / "Ada" / "report.html").read_text()


def test_a_rubric_is_written_from_a_correct_solution_only(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(MASK.format(extra="", method="tril"))
    (tmp_path / "bad.py").write_text(MASK.format(extra="", method="triu"))
    rubric = str(tmp_path / "rubric.toml")
    done = command("mark", "--init", str(tmp_path / "bad.py"), "--rubric", rubric)
    assert done.returncode == 2
    assert "causal_mask breaks causality" in done.stderr
    assert not (tmp_path / "rubric.toml").exists()
    done = command("mark", "--init", str(tmp_path / "good.py"), "--rubric", rubric)
    assert done.stdout.startswith(f"{rubric}: 1 parts, ")
    mark(tmp_path, "good.py", "rubric.toml", "out")
    assert len(set(rows(tmp_path / "out")["good"][1:4])) == 1
    done = command("mark", "--init", str(tmp_path / "good.py"), "--rubric", rubric)
    assert "exists; choose another file" in done.stderr
    assert command("mark").returncode == 2


def test_files_that_are_no_code_only_affect_their_students(tmp_path: Path) -> None:
    good = MASK.format(extra="", method="tril").encode()
    files = {
        b"bom.py": b"\xef\xbb\xbf" + good,
        b"latin1.py": b"# \xe9\n" + good,
        b"null.py": good + b"\0\n",
        b"empty.py": b"",
        b"text.ipynb": b"{",
        b"list.ipynb": b"[]",
        b"deep.ipynb": b"[" * 100_000,
        b"unary.py": b"x = " + b"-" * 100_000 + b"1\n",
        b"name \xe9.py": good,
        b"=1+1.py": good,
    }
    (tmp_path / "class").mkdir()
    for name, content in files.items():
        (tmp_path / "class" / os.fsdecode(name)).write_bytes(content)
    os.mkfifo(tmp_path / "class" / "pipe.py")
    (tmp_path / "class" / "loop").symlink_to(tmp_path / "class")
    (tmp_path / "adapter.py").write_text("def unused():\n    pass\n")
    (tmp_path / "rubric.toml").write_text(RUBRIC.replace("[parts", 'adapter = "adapter.py"\n[parts'))
    mark(tmp_path, "class", "rubric.toml", "out")
    found = rows(tmp_path / "out")
    assert len(found) == len(files) + 1
    assert {name for name in found if found[name][1] == "3"} == {"bom", "name \ufffd", "'=1+1"}


def check_class(folder: Path, size: int, styles: Sequence[str], seconds: int, runs: int) -> None:
    make_class(folder / "class", size, styles)
    solution, rubric = ORIGINALS / f"{styles[0]}.py", folder / "rubric.toml"
    done = command("mark", "--init", str(solution), "--rubric", str(rubric))
    assert done.returncode == 0, done.stderr
    rubric.write_text(rubric.read_text().replace("title =", f"seconds = {seconds}\ntitle ="))
    for run in range(runs):
        mark(folder, "class", "rubric.toml", f"out {run}")
        assert read_all(folder / f"out {run}") == read_all(folder / "out 0")
    found = rows(folder / "out 0")
    assert len(found) == size + 1
    total = found["student"].index("total")
    for name in found:
        points = found[name][total]
        if any(name.endswith(one) for one in HOSTILE if one != "flooding"):
            assert points == "0"
        elif name.endswith(("flooding", f" {styles[0]}")):
            assert points == found[name][total + 1]
        elif name != "student":
            assert 0 < float(points) < float(found[name][total + 1])


@pytest.mark.slow
def test_a_small_class_is_marked_the_same_in_each_run(tmp_path: Path) -> None:
    check_class(tmp_path, 5, ["torch_style"], seconds=1, runs=2)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_class_of_sixty_is_marked_the_same_in_each_run(tmp_path: Path) -> None:
    check_class(tmp_path, 60, STYLES, seconds=20, runs=3)


@needs_browser
def test_the_overview_links_to_the_page_of_each_student(masks: Path) -> None:
    mark(masks, "class", "rubric.toml", "out")
    with opened(width=360, height=740) as page:
        page.goto((masks / "out" / "overview.html").as_uri())
        assert page.locator("h1").inner_text() == "Masks"
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.locator("a", has_text="Bob").last.click()
        assert page.locator("h1").inner_text() == "Masks: Bob"
        assert page.locator(".finding.fail").count() >= 1
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
