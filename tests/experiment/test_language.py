"""A language model on a user's text, through the command line."""

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from command import command

import limelight
from limelight.data.text.running_text import TextData
from limelight.experiment import Run
from limelight.tasks.language.task import Language

TEXT = "".join(f"The number {i} is {'even' if i % 2 == 0 else 'odd'}.\n" for i in range(600))
SETTINGS: dict[str, Any] = {
    "task.data.vocabulary": "characters",
    "task.data.context": 48,
    "model.width": 48,
    "model.depth": 2,
    "model.heads": 4,
    "model.hidden": 96,
    "model.dropout": 0.0,
    "train.epochs": 20,
    "train.batch": 16,
}
OPTIONS = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "numbers.txt"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> Run:
    return limelight.train("language", SETTINGS, out=text.parent / "run", data=text)


def test_training_gives_perplexity_and_bits_per_character(run: Run) -> None:
    metrics = run.report["metrics"]["validation"]
    assert metrics["loss"] < 1
    assert math.isclose(metrics["perplexity"], math.exp(metrics["loss"]))
    assert math.isclose(metrics["bits_per_character"], metrics["loss"] / math.log(2))
    assert run.evaluate() == metrics


def test_bits_per_character_are_comparable_between_vocabularies(text: Path, tmp_path: Path) -> None:
    """Nothing is learned: all tokens are equally likely, and a token of several bytes has more bits."""
    found = {}
    for vocabulary in ("bytes", "subwords"):
        settings = {"task.data.vocabulary": vocabulary, "task.data.vocabulary_size": 300, "train.rate": 1e-9}
        made = limelight.train(
            "language", {**SETTINGS, **settings, "train.epochs": 0.01}, out=tmp_path / vocabulary, data=text
        )
        tokens, characters = (
            getattr(cast(TextData, made.dataset).tokens.entry.splits["validation"], name)
            for name in ("tokens", "characters")
        )
        metrics = made.evaluate()
        expected = math.log2(made.task.sizes.vocabulary) * tokens / characters
        assert abs(metrics["bits_per_character"] - expected) < 0.1
        found[vocabulary] = tokens / characters
    assert found["bytes"] == 1 > found["subwords"]


def test_generated_text_is_printed_and_depends_on_the_seed_only(run: Run) -> None:
    first = command("generate", str(run.path), "The number 7", "--length", "30")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("The number 7")
    assert command("generate", str(run.path), "The number 7", "--length", "30").stdout == first.stdout
    other = command("generate", str(run.path), "The number 7", "--length", "30", "--seed", "2").stdout
    assert other != first.stdout
    piped = command("generate", str(run.path), "-", "--length", "30", stdin="The number 7")
    assert piped.stdout == first.stdout


def test_greedy_text_repeats_what_the_model_learned(run: Run) -> None:
    arguments = ("generate", str(run.path), "The number 51", "--temperature", "0", "--stop", ".")
    assert command(*arguments).stdout.split()[-2] == "is"
    several = command("generate", str(run.path), "--count", "3", "--length", "9").stdout
    assert [f"--- {i} of 3" in several for i in (1, 2, 3)] == [True] * 3


def test_text_is_printed_while_it_is_generated(run: Run) -> None:
    """This text would take minutes, and is stopped after its first characters."""
    program = [sys.executable, "-m", "limelight", "generate", str(run.path), "--length", "1000000"]
    with subprocess.Popen(
        [*program, "--seed", "5"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert len(process.stdout.read(20)) == 20
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 130


def test_predict_continues_texts_and_scores_them(run: Run) -> None:
    found = command("predict", str(run.path), "The number 12 is", "--length", "5", "--json")
    answer = json.loads(found.stdout)[0]
    assert answer["answer"].strip(" .\n") in ("even", "odd", "eve")
    assert 0 < answer["probability"] <= 1
    scores = command("predict", str(run.path), "--score", "The number 12 is even.", "even. is 12 number The")
    likely, unlikely = map(float, scores.stdout.split())
    assert likely > unlikely + 10


def test_predict_prints_one_line_per_text(run: Run) -> None:
    found = command("predict", str(run.path), "The number 12", "The number 13", "--length", "60")
    lines = found.stdout.splitlines()
    assert len(lines) == 2
    assert all("\\nThe number" in line for line in lines)


def test_a_vocabulary_of_words_needs_no_separator(text: Path, tmp_path: Path) -> None:
    settings = SETTINGS | {"task.data.vocabulary": "words", "train.epochs": 0.1, "task.data.context": 12}
    trained = limelight.train("language", settings, out=tmp_path / "run", data=text)
    assert "".join(trained.generate("The number", length=3))
    assert "".join(trained.generate("", length=3))


def test_a_score_is_the_sum_over_all_tokens(run: Run) -> None:
    task, line = run.task, "The number 3"
    assert isinstance(task, Language)
    tokens = torch.tensor([[*task._begin(""), *task.reader.encode(line).tolist()]])
    with torch.no_grad():
        likely = run.model(tokens[:, :-1]).log_softmax(-1)[0]
    total = float(likely.gather(1, tokens[0, 1:].unsqueeze(1)).sum())
    assert abs(float(run.predict([line], score=True)[0].text) - total) < 1e-3


def test_a_text_with_unknown_characters_gives_a_warning(run: Run) -> None:
    done = command("predict", str(run.path), "The € 7", "--length", "3")
    assert "do not occur in training, such as '€'" in done.stderr


def test_another_text_is_evaluated(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text(TEXT[-2000:], "utf-8")
    done = command("evaluate", str(run.path), "--data", str(tmp_path / "other.txt"), "--json")
    assert json.loads(done.stdout)["split"] == "new"
    assert json.loads(done.stdout)["loss"] < 1
    assert "bits_per_character" in done.stdout


def test_examples_begin_with_a_line_if_enough_tokens_are_left(run: Run) -> None:
    found = [str(example.given) for example in run.task.examples(run.dataset, "validation")]
    assert len(found) > 3
    assert all(20 < len(one) <= 40 for one in found)
    assert str(run.task.figure_example(run.model, run.dataset, "validation").given).startswith("The number")


def test_records_have_causal_maps_and_the_next_token_after_each_token(run: Run) -> None:
    record = run.see("The number 8").records[0]
    assert record.sides["source"] == tuple("The␣number␣8")
    assert len(record.steps) == 12
    assert record.steps[2][0].text == "␣"
    for weights in record.layers():
        assert not bool(weights.triu(1).any())
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]), atol=0.02, rtol=0)
    assert record.answer


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the text is empty"),
        (b"too short", "the train split has 8 characters; needed: more than task.data.context = 48"),
        (b"\xe9t\xe9" * 99, "byte 0xe9 at offset 0 is not UTF-8 text"),
        (b"\0" * 999, "byte 0x00 at offset 0 is not UTF-8 text"),
    ],
)
def test_a_file_that_is_not_usable_is_one_clear_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    done = command(
        "train", "language", "--data", str(tmp_path / "a.txt"), *OPTIONS, "--out", str(tmp_path / "run")
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--length", "0"], "length is 0"),
        (["--temperature", "0", "--top-k", "3"], "temperature is 0"),
        (["--top-p", "2"], "top_p is 2"),
    ],
)
def test_options_of_generate_that_do_not_fit_are_refused(
    arguments: list[str], message: str, run: Run
) -> None:
    done = command("generate", str(run.path), *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_a_model_that_does_not_generate_says_so(tmp_path: Path) -> None:
    small = {"task.data.train": 60, "task.data.validation": 20, "task.data.test": 20, "train.epochs": 0.1}
    limelight.train("reverse", small, out=tmp_path / "run")
    done = command("generate", str(tmp_path / "run"), "1 2 3")
    assert done.returncode == 2
    assert "does not generate text" in done.stderr
