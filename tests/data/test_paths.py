"""Devices and pipes are rejected at once by every source of data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from limelight.errors import WrongInput
from limelight.experiment.config import experiment

RECIPES = ("text", "translate", "images", "cifar10")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.csv")
    return tmp_path / "pipe.csv"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("special", ["/dev/zero", "pipe"])
def test_devices_and_pipes_are_not_read(recipe: str, special: str, pipe: Path) -> None:
    path = pipe if special == "pipe" else Path(special)
    with pytest.raises(WrongInput):
        experiment(recipe, data=path).task.load(1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["pairs.txt", "pairs.tsv.gz", "pairs.zip"])
def test_a_pipe_named_like_a_text_file_is_not_read(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(WrongInput, match="not a regular file; devices and pipes are not read"):
        experiment("translate", data=tmp_path / name).task.load(1)


@pytest.mark.timeout(20)
def test_an_experiment_is_not_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine.toml")
    with pytest.raises(WrongInput, match="not a regular file"):
        experiment(tmp_path / "mine.toml")


def test_a_path_that_is_not_utf8_gives_a_one_line_error(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    Path(os.fsdecode(name)).write_text("text,label\ngood,1\nbad,0\n")
    command: list[str | bytes] = [
        sys.executable,
        "-m",
        "limelight",
        "train",
        "text",
        "--data",
        name,
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 2
    assert done.stderr.startswith(b"limelight: task.data.path is '")
    assert done.stderr.endswith(b"caf\\udce9.csv'; allowed: text in UTF-8; rename the file\n")
    assert not (tmp_path / "run").exists()
