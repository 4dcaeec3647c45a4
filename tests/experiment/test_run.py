"""Small runs from end to end: run folder, report, figures, opening and resuming."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
import torch

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.training.checkpoint import newest

SMALL: dict[str, Any] = {
    "task.data.length": 5,
    "task.data.train": 2000,
    "task.data.validation": 97,
    "task.data.test": 101,
    "train.evaluate_every": "63 steps",
    "train.epochs": 6,
    "train.batch": 32,
    "train.rate": 1e-2,
    "train.warmup": 5,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return limelight.train("reverse", SMALL, out=tmp_path_factory.mktemp("runs") / "small")


def test_a_run_folder_has_the_documented_files(run: Run) -> None:
    names = {path.name for path in run.path.iterdir()}
    written = ("experiment.toml", "metrics.jsonl", "report.json", "curves.png", "attention.png")
    assert names == {*written, "checkpoints", "lock"}
    files = {path.name for path in next((run.path / "checkpoints").iterdir()).iterdir()}
    assert files == {"manifest.json", "weights.safetensors", "training.safetensors", "data.json"}
    for picture in ("curves.png", "attention.png"):
        assert matplotlib.image.imread(run.path / picture).std() > 0.05


def test_the_report_has_the_metrics_that_evaluate_returns(run: Run) -> None:
    assert run.report["metrics"]["test"] == run.evaluate("test")
    assert run.report["metrics"]["validation"] == run.evaluate("validation")
    assert run.evaluate("test")["accuracy"] > 0.9
    assert run.report["parameters"] == sum(p.numel() for p in run.model.parameters())


def test_an_opened_run_predicts_the_same_without_loading_the_data(run: Run) -> None:
    lines = ["1 2 3 4 5", "90000", "7 7 7 7 1"]
    opened = limelight.open_run(run.path)
    answers = opened.predict(lines)
    assert [str(answer) for answer in answers] == [str(answer) for answer in run.predict(lines)]
    assert "dataset" not in opened.__dict__  # the data was not loaded
    alone = [opened.predict([line])[0] for line in lines]
    assert [answer.text for answer in alone] == [answer.text for answer in answers]
    assert [answer.probability for answer in alone] == pytest.approx(
        [a.probability for a in answers], abs=1e-5
    )
    assert opened.predict([torch.tensor([1, 2, 3, 4, 5])])[0].text == answers[0].text
    assert opened.predict([]) == []


def test_accuracy_is_the_share_of_correct_predictions(run: Run) -> None:
    """Computed independently: each prediction is compared with its reversed input."""
    inputs = run.dataset.examples("test").inputs
    task: Any = run.task
    lines = [task.reader.decode(inputs[i]) for i in range(len(inputs))]
    answers = [answer.text.split() for answer in run.predict(lines)]
    right = [
        a == b
        for line, answer in zip(lines, answers, strict=True)
        for a, b in zip(line.split()[::-1], answer, strict=True)
    ]
    assert sum(right) / len(right) == pytest.approx(run.evaluate("test")["accuracy"], abs=1e-9)


@pytest.mark.parametrize(
    "row",
    [
        torch.tensor([3, 99]),
        torch.tensor([-1]),
        torch.tensor([0.5]),
        torch.ones(2, 2),
        torch.tensor([], dtype=torch.long),
    ],
)
def test_a_tensor_that_is_not_a_sequence_of_symbols_is_refused(run: Run, row: torch.Tensor) -> None:
    with pytest.raises(WrongInput, match=r"^input 2 is torch\..*; allowed: \(T\), of integers from 0 to 9"):
        run.predict(["1 2 3", row])


def test_the_error_of_an_invalid_input_has_its_number(run: Run) -> None:
    with pytest.raises(WrongInput, match="input 2: symbol is 'x'"):
        run.predict(["1 2 3", "x"])


@pytest.mark.parametrize("given", ["1 " * 2001, torch.ones(2001, dtype=torch.long)], ids=["line", "tensor"])
def test_an_input_that_is_too_long_is_refused_with_the_limit(run: Run, given: str | torch.Tensor) -> None:
    assert len(run.predict(["1 " * 2000])[0].text.split()) == 2000
    with pytest.raises(WrongInput, match=r"^input 1: 2,001 tokens; allowed: 2,000$"):
        run.predict([given])


def test_a_second_run_in_the_same_folder_is_refused_with_the_command_to_resume(run: Run) -> None:
    before = (run.path / "experiment.toml").read_bytes()
    with pytest.raises(
        WrongInput, match=f"already contains a run: resume it with `limelight train {run.path} --resume`"
    ):
        limelight.train("reverse", SMALL, out=run.path)
    assert (run.path / "experiment.toml").read_bytes() == before


def test_resuming_a_finished_run_changes_nothing(run: Run) -> None:
    before = newest(run.path / "checkpoints"), (run.path / "metrics.jsonl").read_bytes()
    limelight.train(run.path, resume=True)
    assert (newest(run.path / "checkpoints"), (run.path / "metrics.jsonl").read_bytes()) == before


def test_resuming_with_other_settings_is_refused_with_the_difference(run: Run) -> None:
    with pytest.raises(
        WrongInput, match=r"this is not the same run: train.rate was 0.01, is 0.1; --allow-inexact"
    ):
        limelight.train("reverse", SMALL | {"train.rate": 0.1}, out=run.path, resume=True)


@pytest.mark.parametrize("change", ["shape", "average", "optimiser", "data", "journal", "no journal"])
def test_a_refused_resume_changes_no_file(change: str, run: Run, tmp_path: Path) -> None:
    """Weights of another shape, another optimiser, other data, or a damaged journal."""
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    changes: dict[str, dict[str, Any]] = {
        "shape": {"model.width": 64},
        "average": {"train.average": 0.9},
        "optimiser": {"train.optimiser": "muon"},
        "data": {"task.data.train": 999},
    }
    settings = changes.get(change)
    if change == "journal":
        (copy / "metrics.jsonl").write_text("{}")
    elif change == "no journal":
        (copy / "metrics.jsonl").write_text("")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(WrongInput):
        limelight.train(copy, settings, resume=True, inexact=True)
    after = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "lock"}
    assert after == before


def test_a_folder_with_other_files_is_not_used_as_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(WrongInput, match="is not empty and contains no run"):
        limelight.train("reverse", SMALL, out=tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_folder_with_the_name_of_a_recipe_is_not_used_as_a_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reverse").mkdir()
    made = limelight.train("reverse", SMALL | {"train.epochs": 1})
    assert made.path == Path("runs/reverse")
    assert not list((tmp_path / "reverse").iterdir())


def test_a_refused_experiment_creates_no_folder(tmp_path: Path) -> None:
    for settings, data in (
        ({"model.heads": 3}, None),
        ({}, "nowhere"),
        ({"task.data.symbols": 2, "task.data.length": 2}, None),
    ):
        with pytest.raises(WrongInput):
            limelight.train("reverse", SMALL | settings, out=tmp_path / "run", data=data)
        assert not (tmp_path / "run").exists()
    with pytest.raises(WrongInput, match="is not a run folder"):
        limelight.open_run(tmp_path)


def test_training_does_not_change_the_random_state_of_the_caller(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    limelight.train("reverse", SMALL | {"train.epochs": 1}, out=tmp_path / "run")
    assert torch.randn(3).equal(expected)


def test_the_same_command_gives_the_same_bits_twice(tmp_path: Path, run: Run) -> None:
    torch.manual_seed(5)
    again = limelight.train("reverse", SMALL, out=tmp_path / "again")
    one, two = newest(run.path / "checkpoints"), newest(again.path / "checkpoints")
    assert one is not None
    assert two is not None
    assert one.files == two.files
    assert (again.path / "metrics.jsonl").read_bytes() == (run.path / "metrics.jsonl").read_bytes()


def test_a_run_is_not_evaluated_on_changed_data(tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    rows = [f"{word} film number {i},{label}" for i in range(40) for word, label in (("good", 1), ("bad", 0))]
    table.write_text("\n".join(["text,label", *rows]))
    limelight.train("text", {"train.epochs": 1}, out=tmp_path / "run", data=table)
    table.write_text("\n".join(["text,label", *rows[1:]]))
    with pytest.raises(WrongInput, match="has changed since the run was trained"):
        limelight.open_run(tmp_path / "run").evaluate()


def edited(run: Run, copy: Path, before: str, after: str) -> Path:
    """A copy of the run with one setting of its experiment file changed."""
    shutil.copytree(run.path, copy)
    text = (copy / "experiment.toml").read_text()
    assert before in text
    (copy / "experiment.toml").write_text(text.replace(before, after))
    return copy


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("heads = 1", "heads = 2", "model.heads was 1, is 2"),
        ("rate = 0.01", "rate = 0.02", "train.rate was 0.01, is 0.02"),
        ("seed = 1", "seed = 2", "seed was 1, is 2"),
    ],
)
def test_edited_settings_cause_a_warning_and_do_not_change_predictions(
    run: Run, tmp_path: Path, before: str, after: str, named: str
) -> None:
    copy = edited(run, tmp_path / "copy", before, after)
    with pytest.warns(UserWarning, match=re.escape(f"was changed after training: {named}; the settings of")):
        opened = limelight.open_run(copy)
    line = "9 8 7 6 5"
    assert opened.predict([line])[0] == run.predict([line])[0]
    assert opened.evaluate("test") == run.evaluate("test")


@pytest.mark.parametrize(("before", "after"), [("heads = 1", "heads = 2"), ("rate = 0.01", "rate = 0.02")])
def test_a_run_with_edited_settings_is_not_resumed(run: Run, tmp_path: Path, before: str, after: str) -> None:
    copy = edited(run, tmp_path / "copy", before, after)
    with pytest.raises(WrongInput, match=r"this is not the same run: (model.heads|train.rate) was .*, is "):
        limelight.train(copy, resume=True)


@pytest.mark.parametrize("damage", ["changed number", "missing line", "repeated line", "not JSON", "empty"])
def test_a_run_with_a_changed_journal_is_not_resumed(run: Run, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    journal = copy / "metrics.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    damaged = {
        "changed number": [lines[0].replace('"step": 63', '"step": 64'), *lines[1:]],
        "missing line": lines[1:],
        "repeated line": [lines[0], *lines],
        "not JSON": ["x" * len(lines[0]), *lines[1:]],
        "empty": [],
    }[damage]
    assert damaged != lines
    journal.write_text("".join(damaged))
    with pytest.raises(
        WrongInput, match=r"metrics\.jsonl (was changed after|is shorter than when) the checkpoint was saved"
    ):
        limelight.train(copy, resume=True)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{}",
        '{"step": "x"}',
        '{"step": 1, "epoch": 1.0, "train": {}, "validation": 3}',
        '{"step": 1, "epoch": 1.0, "train": {}, "validation": {}}',
        "\x00",
    ],
)
def test_the_error_of_a_damaged_journal_has_the_line_number(run: Run, tmp_path: Path, line: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    with (copy / "metrics.jsonl").open("a") as file:
        file.write(f"{line}\n")
    count = len(run.journal)
    with pytest.raises(WrongInput, match=rf"metrics\.jsonl:{count + 1} is damaged"):
        _ = limelight.open_run(copy).journal


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"steps": []}', b"\xff", b"[" * 100_000])
def test_the_error_of_a_damaged_report_has_the_file_name(run: Run, tmp_path: Path, content: bytes) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    (copy / "report.json").write_bytes(content)
    with pytest.raises(WrongInput, match=r"report\.json is damaged"):
        _ = limelight.open_run(copy).report


@pytest.mark.parametrize("name", ["odd-one-out", "majority", "count", "brackets"])
def test_sequence_recipes_are_trained_evaluated_and_predicted(name: str, tmp_path: Path) -> None:
    sizes = {"task.data.train": 300, "task.data.validation": 50, "task.data.test": 50, "train.epochs": 1}
    made = limelight.train(name, sizes, out=tmp_path / "run")
    assert set(made.report["metrics"]["test"]) >= {"loss", made.task.goal.metric}
    line = made.sample or json.dumps(made.dataset.examples("test").inputs[0].tolist())
    (answer,) = made.predict([line])
    assert made.see().records[0].answer == answer.text
    task: Any = made.task
    kind = task.answers.kind
    if kind == "number":
        assert float(answer.text) == pytest.approx(float(answer.text))
        assert answer.probability is None
    elif kind == "which":
        assert 0 <= int(answer.text) < 10
    else:
        assert answer.text in task.answers.names
    if answer.probability is not None:
        assert 0 < answer.probability <= 1


def test_a_single_line_is_one_input_and_other_types_are_refused(tmp_path: Path) -> None:
    made = limelight.train("reverse", {"task.data.limit": 50, "train.epochs": 1}, out=tmp_path / "run")
    assert made.predict("1 2 3") == made.predict(["1 2 3"])
    for wrong in ([3], [None], [["1 2 3"]]):
        with pytest.raises(WrongInput, match=r"^input 1 is .*; allowed: a line of text"):
            made.predict(wrong)  # type: ignore[arg-type]


def test_other_settings_are_not_told_to_resume(run: Run) -> None:
    with pytest.raises(WrongInput, match=r"contains a run with other settings; choose another folder"):
        limelight.train("reverse", {"model.hidden": 7}, out=run.path)


def test_an_error_in_a_toml_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        limelight.experiment.experiment("reverse").to_toml().replace("heads", "heds")
    )
    with pytest.raises(WrongInput, match=r"mine\.toml: key 'model\.heds' is unknown"):
        limelight.train(tmp_path / "mine.toml")
