"""A run that was trained on a table predicts from tables, and shows words as they were typed."""

import csv
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
from limelight.experiment.pages import draw_page

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


def test_the_report_has_a_linear_model_to_compare_with(run: Run) -> None:
    baseline = run.report["baseline"]
    assert baseline["model"] == "TF-IDF with logistic regression"
    assert 0.5 < baseline["value"] <= 1
    assert "baseline accuracy" in draw_page(run)
    assert run.experiment.model.attention_note in draw_page(run)
    assert "baseline accuracy" in command("train", str(run.path), "--resume").stdout


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


def test_a_header_in_a_new_file_is_not_data_even_if_training_had_none(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(table([(text, label) for text, label in ROWS]))
    made = limelight.train("text", {"train.epochs": 4}, out=tmp_path / "run", data=tmp_path / "films.csv")
    (tmp_path / "new.csv").write_text(table([("id", "text"), *((str(i), t) for i, (t, _) in enumerate(NEW))]))
    check_file(made, tmp_path / "new.csv", NEW)
    labelled = table([("label", "text"), *((label, text) for text, label in NEW)])
    (tmp_path / "labelled.csv").write_text(labelled)
    assert made.evaluate(data=tmp_path / "labelled.csv")["accuracy"] == 1


def test_rows_without_a_text_keep_their_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text('opinion\ngreat film\n""\n   \nawful film\n')
    assert run.task.inputs_in(tmp_path / "new.csv") == ["great film", "", "", "awful film"]


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
    found = json.loads(done.stdout)
    assert [(one["input"], one["answer"]) for one in found] == NEW
    for one in found:
        assert set(one["probabilities"]) == {"good", "bad"}
        assert one["probabilities"][one["answer"]] == one["probability"] >= 0.5
        assert sum(one["probabilities"].values()) == pytest.approx(1)


def test_the_command_predict_adds_answers_to_the_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(FILES["other columns.csv"])
    out = tmp_path / "answers.csv"
    done = command("predict", str(run.path), str(tmp_path / "new.csv"), "--out", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr
    with out.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "opinion", "stars", "answer", "probability"]
    assert [row[:4] for row in rows] == [[str(i), text, "3", label] for i, (text, label) in enumerate(NEW)]
    assert all(0.5 <= float(row[4]) <= 1 for row in rows)
    refused = command("predict", str(run.path), str(tmp_path / "new.csv"), "--out", "answers.xlsx")
    assert refused.returncode == 2
    assert "allowed: a name that ends in .csv or .tsv" in refused.stderr


def test_an_invalid_line_among_others_is_an_error_among_the_answers(run: Run) -> None:
    folder, long = run.path.parent, "great " * 2_001
    settings = {"train.epochs": 1, "task.data.longest": 5_000}  # no text is truncated
    made = limelight.train("text", settings, folder / "long", data=folder / "films.csv")
    done = command("predict", str(made.path), "a great film", long, "awful", "--jsonl")
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "limelight: 1 of 3 inputs have no answer, but an error"
    assert {"answer" in one for one in (first, third)} == {True}
    assert second["error"] == "input 2: 2,001 tokens; allowed: 2,000"
    alone = command("predict", str(made.path), long)
    assert (alone.returncode, alone.stdout) == (2, "")


def test_inputs_unlike_those_of_training_give_warnings(run: Run) -> None:
    known = command("predict", str(run.path), "this film, number, is great great great")
    assert (known.returncode, known.stderr) == (0, "")
    other = command("predict", str(run.path), "this zorp film , is blip great")
    assert "2 of 7 tokens (29%) do not occur in training, such as 'zorp', 'blip'" in other.stderr
    length = command("predict", str(run.path), "great " * 150)
    assert "1 input has a length unlike training (" in length.stderr
    long = command("predict", str(run.path), "great " * 999, "zorp blip")
    assert "such as 999; expect mistakes" in long.stderr
    assert "1 of 2 inputs were truncated to 400 tokens" in long.stderr
    assert "; 1 of 2 inputs have mostly such tokens" in long.stderr


@pytest.mark.parametrize("verb", ["predict", "see"])
def test_a_mistyped_file_name_is_not_read_as_a_text(run: Run, verb: str) -> None:
    done = command(verb, str(run.path), "nwe.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "limelight: nwe.csv: No such file or directory\n"


def test_a_run_is_evaluated_on_other_data(run: Run, tmp_path: Path) -> None:
    rows = [*NEW, ("an awful film", "good")]
    (tmp_path / "new.csv").write_text(table([("label", "opinion"), *((label, text) for text, label in rows)]))
    assert run.evaluate(data=tmp_path / "new.csv")["accuracy"] == 0.75
    done = command("evaluate", str(run.path), "--data", str(tmp_path / "new.csv"), "--json")
    found = json.loads(done.stdout)
    assert (found["split"], found["accuracy"]) == ("new", 0.75)
    assert found["confusion"] == [[1, 0], [1, 2]]
    (tmp_path / "new.csv").write_text(table([("opinion", "label"), ("a film", "ugly")]))
    refused = command("evaluate", str(run.path), "--data", str(tmp_path / "new.csv"))
    assert refused.returncode == 2
    assert "the label is 'ugly'; allowed: a label that occurs in training" in refused.stderr


def test_numbers_are_predicted_and_judged_as_numbers(tmp_path: Path) -> None:
    rows = [(f"{'good ' * i}film number {j}", str(i / 2)) for i in range(5) for j in range(40)]
    (tmp_path / "stars.csv").write_text(table([("text", "stars"), *rows]))
    settings = {"train.epochs": 4, "task.data.label": "stars"}
    made = limelight.train("text", settings, tmp_path / "run", data=tmp_path / "stars.csv")
    assert list(made.report["metrics"]["test"]) == ["loss", "mae", "rmse", "r2"]
    (one,) = json.loads(command("predict", str(made.path), "good film", "--json").stdout)
    assert isinstance(one["answer"], float)
    assert "probabilities" not in one


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
    (one,) = json.loads((tmp_path / "stdout2").read_bytes())
    assert one["input"] == "a gréat film"


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
    assert f"limelight predict {run.path} '{run.sample}'" in done.stdout
