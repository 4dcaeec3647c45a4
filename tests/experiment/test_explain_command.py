"""The output of `limelight explain`: a table at any width, JSON, or a one-line error."""

import json
import re

import pytest
from support import must_fail

from limelight.__main__ import main
from limelight.experiment.explain import Layer, explain_experiment

SETTINGS = {"task.data.train": 31, "task.data.validation": 7, "task.data.test": 7, "train.batch": 17}
SMALL = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]


def run_explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["explain", *arguments])
    return int(stop.value.code or 0), *capsys.readouterr()


def test_the_json_output_has_every_layer_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_explain(capsys, "reverse", "--json", "--set", "model.heads=2", *SMALL)
    printed = json.loads(out)
    assert code == 0
    assert printed["words"] == "labeller: 1 layer, 2 heads of width 16, pre-norm, sinusoidal positions"
    assert printed["inputs"] == [17, 16]
    attention = next(layer for layer in printed["layers"] if layer["kind"] == "MultiHeadAttention")
    assert attention["per_head"]["W_q"] == [16, 32]
    assert attention["inputs"] == [[17, 16, 32]]
    assert printed["totals"] == {
        "parameters": 10_378,
        "cost": sum(layer["cost"] for layer in printed["layers"]),
    }


def check_same_content(table: str, other: str) -> None:
    """Compare all characters except white space and the rule under the titles."""
    assert sorted(re.sub(r"[\s─]", "", table)) == sorted(re.sub(r"[\s─]", "", other))


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_table_has_the_same_content_as_a_wide_one(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("brackets", "--set", "model.pooling=attention", *SMALL)
    monkeypatch.setenv("COLUMNS", "300")
    _, wide, _ = run_explain(capsys, *arguments)
    monkeypatch.setenv("COLUMNS", str(columns))
    _, narrow, _ = run_explain(capsys, *arguments)
    assert max(map(len, narrow.splitlines())) <= columns
    check_same_content(narrow, wide)
    must_fail(check_same_content, "\n".join(line[: columns // 2] for line in narrow.splitlines()), wide)


TRANSLATE = {
    "translate": ("MultiHeadAttention", "W_q, b_q:"),
    "translate-rnn": ("GRU", "GRU: weight_ih"),
}


def check_words_are_whole(layers: list[Layer], table: str) -> None:
    """No shape, name or number is broken by a line end."""
    assert {*" ".join("\n".join(layer.row) for layer in layers).split()} <= {*table.split()}


@pytest.mark.parametrize("recipe", TRANSLATE)
def test_the_table_of_a_translation_model_fits_into_80_columns(
    recipe: str, book: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"task.vocabulary.kind": "words", "task.vocabulary.shared": True}
    settings |= {"model.tied": "all"} if recipe == "translate" else {}
    layers = explain_experiment(recipe, settings, book).layers
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={str(value).lower()}")]
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run_explain(capsys, recipe, "--data", book, *given)
    assert max(map(len, out.splitlines())) <= 80
    check_words_are_whole(layers, out)
    assert "calls: with several" in out
    for kind, legend in TRANSLATE.values():
        assert (legend in out) == any(layer.kind == kind for layer in layers)
    monkeypatch.setenv("COLUMNS", "40")
    _, narrow, _ = run_explain(capsys, recipe, "--data", book, *given)
    must_fail(check_words_are_whole, layers, narrow)


def test_the_table_shows_each_layer_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_explain(capsys, "reverse", *SMALL)
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "labeller: 1 layer, 1 head of width 32, pre-norm, sinusoidal positions"
    explained = explain_experiment("reverse", SETTINGS)
    for line in "\n".join(layer.row[0] for layer in explained.layers).splitlines():
        assert any(shown.startswith(line) for shown in lines), line
    assert not any(line.startswith(("calls:", "GRU:")) for line in lines)
    total = next(line.split() for line in lines if line.startswith("total"))
    assert total == ["total", *(f"{value:,}" for value in explained.totals.values())]


WRONG = [["revers"], ["reverse", "--set", "model.heads=3"], ["reverse", "--set", "nonsense"], ["text"]]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_invalid_input_prints_one_line_and_exits_with_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, error = run_explain(capsys, *arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("limelight: ")
