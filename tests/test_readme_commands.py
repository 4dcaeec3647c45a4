"""Every command of the README works as it is printed, on small data."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import command
from drawn import noise

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines() if line.startswith("limelight ")]
ORIGINAL = (ROOT / "tests" / "check" / "originals" / "uva_style.py").read_text()
QUICK = ["--set", "task.data.limit=120", "--set", "train.epochs=1"]
OWN_TASK = ["--set", "train.epochs=1"]


def prepare(folder: Path) -> None:
    """The files that the commands name."""
    words = {"good": "a fine film", "bad": "a dull film"}
    rows = [f"{text} number {i},{label}" for i in range(40) for label, text in words.items()]
    for name in ("reviews.csv", "new.csv"):
        (folder / name).write_text("\n".join(["text,label", *rows]))
    pairs = [f"I see {i} cats.\tJe vois {i} chats.\n" for i in range(150)]
    (folder / "fra.txt").write_text("".join(pairs))
    (folder / "notes.txt").write_text("".join(pairs) * 20)
    sentences = [f"I\tPRON\nsee\tVERB\n{i}\tNUM\ncats\tNOUN\n\n" for i in range(40)]
    (folder / "train.conll").write_text("".join(sentences))
    for label in ("cat", "dog"):
        (folder / "photos" / label).mkdir(parents=True)
        for i in range(12):
            noise(8, 8, seed=i).save(folder / "photos" / label / f"{i}.png")
    noise(8, 8).save(folder / "seven.png")
    code = re.sub(r"(?<!nn\.)MultiheadAttention", "MyAttention", ORIGINAL)
    (folder / "homework.py").write_text(code)
    (folder / "solution.py").write_text(code)
    (folder / "submissions").mkdir()
    (folder / "submissions" / "student.py").write_text(code)
    cell: dict[str, Any] = {
        "cell_type": "code",
        "source": code,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "homework.ipynb").write_text(json.dumps(notebook))
    (folder / "examples").mkdir()
    (folder / "examples" / "own_task.py").write_text((ROOT / "examples" / "own_task.py").read_text())


def quick(arguments: list[str]) -> list[str]:
    """The arguments, and settings for small data."""
    if arguments[0] not in ("train", "sweep"):
        return arguments
    sizes = ["--set", "task.vocabulary.size=120"] if arguments[1] == "translate" else []
    return [*arguments, *(OWN_TASK if arguments[1].endswith(".py") else QUICK), *sizes]


def steps() -> Iterator[tuple[str, list[str], str]]:
    """Each line of the README, its arguments, and the file that its output is written to."""
    for line in LINES:
        words = shlex.split(line, comments=True)[1:]
        where = words.index(">") if ">" in words else len(words)
        yield line, words[:where], "".join(words[where + 1 :])


def test_the_readme_has_commands_of_all_four_verbs() -> None:
    assert {"check", "mark", "train", "predict", "evaluate", "see", "serve"} <= {
        line.split()[1] for line in LINES
    }


@pytest.mark.slow
def test_the_commands_of_the_readme_work_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMELIGHT_CACHE", str(tmp_path / "cache"))
    prepare(tmp_path)
    for line, arguments, file in steps():
        if arguments[0] == "serve":  # it does not end; tests/view/server and tests/experiment/test_live.py
            continue
        done = command(*quick(arguments))
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        assert done.stdout
        if file:
            Path(file).write_text(done.stdout)
