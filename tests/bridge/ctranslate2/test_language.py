"""Texts with the engine, from the command line, too."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import command

from limelight.experiment import Run, open_run
from limelight.experiment.exports import export


@pytest.fixture(scope="module")
def exported(language: Run) -> Run:
    export(language, "ctranslate2")
    return open_run(language.path, device="cpu", engine="ctranslate2")


def text(run: Run, prompt: str = "The number 7", **options: Any) -> str:
    return "".join(run.generate(prompt, **options))


def test_greedy_text_is_that_of_torch_and_continues_when_the_context_is_full(
    language: Run, exported: Run
) -> None:
    for prompt in ("", "The number 7", "The number 7 is odd.\n" * 3):
        assert text(exported, prompt, length=80) == text(language, prompt, length=80)
    assert exported.predict("The ")[0].probability == pytest.approx(
        language.predict("The ")[0].probability, rel=1e-3
    )


def test_text_ends_at_the_text_to_stop_at(language: Run, exported: Run) -> None:
    assert text(exported, length=60, stop="number") == text(language, length=60, stop="number")
    assert len(list(exported.generate("The", length=20))) > 5  # pieces, each as soon as it is known


def test_samples_depend_on_the_seed_only(exported: Run) -> None:
    options: dict[str, Any] = {"length": 60, "temperature": 1.0, "top_k": 7}
    assert text(exported, seed=5, **options) == text(exported, seed=5, **options)
    assert text(exported, seed=5, **options) != text(exported, seed=6, **options)
    assert text(exported, seed=5, length=60, temperature=1.0, top_p=0.8) == text(
        exported, seed=5, length=60, temperature=1.0, top_p=0.8
    )


@pytest.mark.parametrize(
    "options",
    [{"repetition": 1.5}, {"temperature": 0.7, "top_p": 0.8}, {"temperature": 1, "top_k": 9, "top_p": 0.5}],
)
def test_options_that_mean_something_else_are_computed_by_torch(
    options: dict[str, Any], language: Run, exported: Run
) -> None:
    assert text(exported, length=60, **options) == text(language, length=60, **options)


def test_scores_records_and_losses_are_those_of_torch(language: Run, exported: Run) -> None:
    scores = [run.predict("The number 3 is odd.", score=True)[0].text for run in (language, exported)]
    assert scores[0] == scores[1]
    assert exported.evaluate() == language.evaluate()
    ours, theirs = (run.record(["The "])[0] for run in (language, exported))
    assert theirs.answer == ours.answer  # type: ignore[union-attr]


def test_the_commands_have_the_engine(language: Run, exported: Run) -> None:
    for name, given in (("generate", ["The number"]), ("predict", ["The number", "An"])):
        printed = [
            command(name, str(language.path), *given, "--length", "20", "--temperature", "0", *engine)
            for engine in ((), ("--engine", "ctranslate2"))
        ]
        assert [one.returncode for one in printed] == [0, 0]
        assert printed[0].stdout == printed[1].stdout != ""


def test_the_effect_of_eight_bits_on_perplexity_is_printed(language: Run, tmp_path: Path) -> None:
    folder = tmp_path / "int8"
    printed = command(
        "export", str(language.path), "--to", "ctranslate2", "--quantize", "int8", "--out", str(folder)
    )
    assert printed.returncode == 0
    assert printed.stdout.strip() == str(folder)
    number = r"[\d.]+"
    wanted = (
        rf"perplexity of the validation split: {number} with int8, {number} with float32 \([+-]{number}%\)"
    )
    assert re.search(wanted, printed.stderr)
    assert json.loads((folder / "export.json").read_text())["quantize"] == "int8"
