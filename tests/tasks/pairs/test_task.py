"""The task of one label for two texts."""

import json
from pathlib import Path

import pytest
from command import command

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.pages import about
from limelight.view.record import Record

WORDS = ("cat", "dog", "bird", "fish", "cow", "mouse")
ROWS = [
    (f"I see the {one} {i}", f"a {other}", "same" if one == other else "other")
    for i in range(5)
    for one in WORDS
    for other in (one, WORDS[(WORDS.index(one) + i + 1) % 6])
]
SMALL = {"model.width": 16, "model.heads": 2, "model.depth": 1, "train.epochs": 1, "train.batch": 8}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pairs")
    rows = [("question1", "question2", "is_duplicate"), *ROWS]
    (folder / "pairs.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    made = limelight.train("pairs", SMALL, out=folder / "run", data=folder / "pairs.csv")
    return limelight.open_run(made.path)


def test_a_line_with_a_tab_or_bars_is_a_pair(run: Run) -> None:
    first, second = run.predict(["I see the cat\ta dog", "I see the cat ||| a dog"])
    assert first == second
    assert first.probabilities.keys() == {"other", "same"}
    with pytest.raises(
        WrongInput, match=r"^input 2: the line has one text; allowed: two texts, separated by a"
    ):
        run.predict(["a\tb", "I see the cat"])


def test_the_texts_of_a_table_are_predicted_and_the_answers_written_beside_them(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("id,question2,question1\n7,a dog,I see the cat\n")
    done = command("predict", str(run.path), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv"))
    assert done.returncode == 0, done.stderr
    (expected,) = run.predict("I see the cat\ta dog")
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[0] == "id,question2,question1,answer,probability"
    assert rows[1] == f"7,a dog,I see the cat,{expected.text},{expected.probability:.6g}"
    (tmp_path / "lines.txt").write_text("I see the cat\ta dog\n")
    assert command("predict", str(run.path), str(tmp_path / "lines.txt")).stdout == f"{expected.text}\n"


def test_other_pairs_are_evaluated(run: Run, tmp_path: Path) -> None:
    content = "question1,question2,is_duplicate\nI see the cat,a dog,other\nI see the cow,a cow,same\n"
    (tmp_path / "new.csv").write_text(content)
    done = command("evaluate", str(run.path), "--data", str(tmp_path / "new.csv"), "--json")
    assert json.loads(done.stdout)["split"] == "new"
    assert {"accuracy", "macro_f1", "classes"} <= json.loads(done.stdout).keys()


def test_a_record_shows_both_texts_and_the_separator(run: Run) -> None:
    (record,) = run.record(["I see the cat\ta zebra"])
    assert isinstance(record, Record)
    assert record.given == "I see the cat ||| a zebra"  # as it can be typed
    assert record.sides["source"] == ("i", "see", "the", "cat", "[separator]", "a", "zebra (unk)")
    assert {one.text for one in record.candidates} == {"other", "same"}
    assert " ||| " in about(run).sample
    assert " ||| " in run.sample


def test_a_model_of_generated_pairs_is_evaluated_on_a_table(tmp_path: Path) -> None:
    few = {"task.data.train": 60, "task.data.validation": 12, "task.data.test": 12}
    run = limelight.train("pairs", SMALL | few, out=tmp_path / "run")
    content = "a,b,label\nThe cat sleeps.,It sleeps.,entailment\nThe cat sleeps.,It runs.,neutral\n"
    (tmp_path / "new.csv").write_text(content)
    assert 0 <= run.evaluate(data=tmp_path / "new.csv")["accuracy"] <= 1
    assert run.task.inputs_in(tmp_path / "new.csv")[0] == "The cat sleeps.\tIt sleeps."
    (tmp_path / "new.csv").write_text(content.replace("neutral", "unclear"))
    with pytest.raises(WrongInput, match=r"new\.csv:3: the label is 'unclear'; allowed: a label that occurs"):
        run.evaluate(data=tmp_path / "new.csv")
