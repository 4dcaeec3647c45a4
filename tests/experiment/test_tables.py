"""A run that was trained on a table predicts from tables, and shows words as they were typed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import command
from PIL import Image
from support import must_fail

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.examples import examples
from limelight.experiment.figures import attention_figure

WORDS = {"good": ("good", "nice", "great"), "bad": ("bad", "awful", "poor")}
ROWS = [
    (f"this film, number {i}, is {WORDS[label][i % 3]} xyzzy{i}", label)
    for i in range(60)
    for label in ("good", "bad")
]


def table(rows: list[tuple[str, ...]], separator: str = ",") -> str:
    quoted = ([f'"{field}"' if separator == "," else field for field in row] for row in rows)
    return "".join(separator.join(row) + "\n" for row in quoted)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("table")
    (folder / "films.csv").write_text(table([("opinion", "label"), *ROWS]))
    made = limelight.train("text", {"train.epochs": 8}, out=folder / "run", data=folder / "films.csv")
    assert made is not None
    assert made.evaluate()["accuracy"] == 1.0
    return limelight.open_run(made.path)


def test_the_figure_of_a_run_has_a_text_that_fits_with_its_answer_and_label(run: Run) -> None:
    example = run.task.figure_example(run.model, run.dataset, "test")
    assert 5 <= len(str(example.given).split()) <= 16
    title = " ".join(attention_figure(run).get_suptitle().split())
    assert title.startswith(f"text: “{example.given}” → {example.truths[0]} (")
    assert title.endswith("%), correct")
    with Image.open(run.path / "attention.png") as picture:
        assert picture.width <= 2400


NEW = [("this is a great film", "good"), ("an awful, poor film", "bad"), ("nice", "good")]
FILES = {
    "other columns.csv": table(
        [("id", "opinion", "stars"), *((str(i), t, "3") for i, (t, _) in enumerate(NEW))]
    ),
    "labels first.csv": table([("label", "opinion"), *((label, text) for text, label in NEW)]),
    "only texts.csv": table([(text,) for text, _ in NEW]),
    "one column.csv": table([("opinion",), *((text,) for text, _ in NEW)]),
    "tabs.tsv": table([("opinion", "label"), *NEW], "\t"),
    "tabs.txt": table([("opinion", "label"), *NEW], "\t"),
    "lines.txt": "".join(f"{text}\n" for text, _ in NEW),
}


def check_file(run: Run, path: Path, expected: list[tuple[str, str]]) -> None:
    lines = run.task.inputs_in(path)
    assert lines == [text for text, _ in expected]
    assert [answer.text for answer in run.predict(lines)] == [label for _, label in expected]


@pytest.mark.parametrize("name", FILES)
def test_prediction_reads_the_column_that_training_read(run: Run, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    check_file(run, tmp_path / name, NEW)


def test_the_check_fails_if_raw_lines_are_predicted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.csv").write_text(FILES["labels first.csv"])
    monkeypatch.setattr(type(run.task), "inputs_in", lambda _, path: path.read_text().splitlines())
    must_fail(check_file, run, tmp_path / "new.csv", NEW)


def test_a_table_without_the_column_is_refused_with_its_columns(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(table([("id", "review"), ("1", "great")]))
    with pytest.raises(
        WrongInput,
        match=r"new\.csv:1: column 'opinion' is unknown; allowed: id, review; or pass only the texts",
    ):
        run.task.inputs_in(tmp_path / "new.csv")


def test_columns_without_a_header_are_found_by_their_position(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(table([(label, text) for text, label in ROWS]))
    made = limelight.train("text", {"train.epochs": 8}, out=tmp_path / "run", data=tmp_path / "films.csv")
    assert made is not None
    (tmp_path / "new.csv").write_text(table([(label, text) for text, label in NEW]))
    check_file(made, tmp_path / "new.csv", NEW)


def test_a_run_of_0_8_1_finds_the_text_column_by_its_usual_names(run: Run, tmp_path: Path) -> None:
    """Runs of 0.8.1 did not save the column."""
    task: Any = run.task
    task._state, known = task._state.model_copy(update={"column": ""}), task._state
    try:
        (tmp_path / "new.csv").write_text(table([("id", "review"), *(("1", text) for text, _ in NEW)]))
        check_file(run, tmp_path / "new.csv", NEW)
        (tmp_path / "new.csv").write_text(table([("id", "opinion"), ("1", "great")]))
        with pytest.raises(WrongInput, match="the text column is not clear"):
            run.task.inputs_in(tmp_path / "new.csv")
    finally:
        task._state = known


def test_the_command_predict_reads_the_column(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(FILES["labels first.csv"])
    done = command("predict", str(run.path), str(tmp_path / "new.csv"), "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["input"], one["answer"]) for one in found] == NEW


# Predicts once per stdin file, in forks: the import of torch takes longer than a prediction.
PREDICT = """
import os, sys
import limelight.experiment.run
from limelight.__main__ import main

folder, run, *arguments = sys.argv[1:]
for number, given in enumerate(([], arguments, ["--json"])):
    if not (child := os.fork()):
        flags = os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT
        for stream, name in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(os.open(f"{folder}/{name}{number}", flags[stream]), stream)
        main(["predict", run, *given])
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_input_that_is_not_utf8_is_refused_in_every_locale(run: Run, locale: str, tmp_path: Path) -> None:
    for number, stdin in enumerate((b"a gr\xe9at film\n", b"", "a gréat film\n".encode())):
        (tmp_path / f"stdin{number}").write_bytes(stdin)
    program: list[str | bytes] = [sys.executable, "-c", PREDICT, str(tmp_path), str(run.path)]
    program.append(b"a gr\xe9at film")
    done = subprocess.run(program, stdout=subprocess.PIPE, check=True, env=os.environ | {"LC_ALL": locale})
    assert done.stdout.split() == [b"2", b"2", b"0"]
    for number in (0, 1):
        assert (tmp_path / f"stdout{number}").read_bytes() == b""
        assert b"not UTF-8 text" in (tmp_path / f"stderr{number}").read_bytes()
    assert json.loads((tmp_path / "stdout2").read_bytes())["input"] == "a gréat film"


def test_unknown_words_are_shown_and_marked(run: Run) -> None:
    (record,) = run.see("This zebra is great").records
    assert record.given == "This zebra is great"
    assert record.sides["source"] == ("this", "zebra (unk)", "is", "great")


def test_held_out_examples_are_shown_with_their_original_words(run: Run) -> None:
    assert "xyzzy" in run.sample
    for record in examples(run):
        assert "<unk>" not in record.given
        assert record.given in {" ".join(text.split()) for text, _ in ROWS}
        assert not any("<unk>" in token for token in record.sides["source"])
    done = command("train", str(run.path), "--resume")
    assert done.returncode == 0, done.stderr
    assert f"limelight predict {run.path} -- '{run.sample}'" in done.stdout
