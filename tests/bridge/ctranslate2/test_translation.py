"""Translations with the engine are those of torch, from the command line, too."""

import json
import re
import sys
from pathlib import Path
from subprocess import run as run_process
from typing import Any, cast

import numpy as np
import pytest
import torch
from command import command
from ctranslate2.specs.model_spec import NumpyVariable, visit_spec

from limelight.bridge.ctranslate2.quantize import LARGEST, quantize
from limelight.bridge.ctranslate2.specs import ROWS, translation_spec
from limelight.bridge.ctranslate2.translation import TranslationEngine, TranslationSearch
from limelight.experiment import Run, open_run
from limelight.experiment.exports import export
from limelight.nn import Tap
from limelight.tasks.translate.search import Search, Sources, decode

DOCS = Path(__file__).parents[3] / "docs" / "export.md"
LINES = ["one two three", "six", "four four five one", "", "two one two one two one two"]


@pytest.fixture(scope="module")
def exported(translation: Run) -> Run:
    """The same run, with the engine."""
    export(translation, "ctranslate2")
    return open_run(translation.path, device="cpu", engine="ctranslate2")


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4}, {"beam": 4, "length_penalty": 0.0}])
def test_all_hypotheses_and_their_probabilities_equal_those_of_torch(
    options: dict[str, Any], translation: Run, exported: Run
) -> None:
    options = {"n_best": options["beam"]} | options
    ours, theirs = (run.predict(LINES, **options) for run in (translation, exported))
    for mine, other in zip(ours, theirs, strict=True):
        for one, same in zip((mine, *mine.others), (other, *other.others), strict=True):
            assert same.text == one.text
            assert same.probability == pytest.approx(one.probability, rel=1e-4)


def test_samples_and_alignments_are_those_of_torch(translation: Run, exported: Run) -> None:
    samples: dict[str, Any] = {"temperature": 1.0, "seed": 3, "n_best": 2}
    assert exported.predict(LINES, **samples) == translation.predict(LINES, **samples)
    ours, theirs = (run.predict(LINES, alignment=True) for run in (translation, exported))
    assert [one.alignment for one in theirs] == [one.alignment for one in ours]


def test_a_sentence_has_its_own_maximum_length_in_a_batch_of_others(translation: Run, exported: Run) -> None:
    task: Any = translation.task
    rows = [[3, 5, task.source.end], [2, 4, 6, 7, 3, 5, 8, task.source.end]]
    tokens = torch.tensor([row + [0] * (8 - len(row)) for row in rows])
    search = cast(TranslationEngine, exported.answering).generator()
    assert isinstance(search, TranslationSearch)
    sources = Sources(tokens, torch.tensor([3, 8]), [2, 9], task.target.begin, task.target.end)
    for wanted in (Search(), Search(beam=3, n_best=3)):
        expected = decode(translation.model.generator(), sources, wanted)  # type: ignore[operator]
        found = search.search(sources, wanted)
        assert found is not None
        assert [[one.tokens for one in several] for several in found] == [
            [one.tokens for one in several] for several in expected
        ]
        assert max(len(one.tokens) for one in found[0]) == 1


def test_sentences_that_are_longer_than_the_table_of_positions_are_left_to_torch(exported: Run) -> None:
    search = cast(TranslationEngine, exported.answering).generator()
    tokens = torch.ones(1, 5, dtype=torch.long)
    assert search.search(Sources(tokens, None, [ROWS + 1], 0, 1), Search()) is None
    assert search.search(Sources(tokens, None, [9], 0, 1), Search()) is not None


def test_torch_translates_while_attention_is_changed(exported: Run) -> None:
    tap = next(part for part in exported.answering.modules() if isinstance(part, Tap))
    before = exported.predict("one two three", beam=1)[0].probability
    with tap.editing(torch.zeros_like):
        changed = exported.predict("one two three", beam=1)[0].probability
        options = exported.task.read_options({"beam": 1})
        assert changed == exported.task.predict(exported.model, ["one two three"], options)[0].probability
    assert changed != pytest.approx(before, rel=1e-4)


def test_records_and_metrics_equal_those_of_torch(translation: Run, exported: Run) -> None:
    ours, theirs = (run.record(["one two"])[0] for run in (translation, exported))
    assert theirs.answer == ours.answer  # type: ignore[union-attr]
    assert len(theirs.maps) == len(ours.maps)  # type: ignore[union-attr]
    assert exported.evaluate() == pytest.approx(translation.evaluate(), rel=1e-4)


def test_the_commands_have_the_engine(translation: Run, exported: Run) -> None:
    for name, given in (("predict", LINES[:3]), ("evaluate", [])):
        printed = [
            command(name, str(translation.path), *given, *engine)
            for engine in ((), ("--engine", "ctranslate2"), ("--engine", "auto"))
        ]
        assert [one.returncode for one in printed] == [0, 0, 0]
        numbers = [re.sub(r"\d+\.\d+", "", one.stdout) for one in printed]
        assert numbers[0] == numbers[1] == numbers[2] != ""


def test_weights_of_eight_bits_are_smaller_and_use_seven(translation: Run, tmp_path: Path) -> None:
    before = {name: weight.clone() for name, weight in translation.model.state_dict().items()}
    small = export(translation, "ctranslate2", tmp_path / "int8", quantize="int8")
    notes = json.loads((small / "export.json").read_text())["notes"]
    assert re.fullmatch(
        r"BLEU of the validation split: [\d.]+ with int8, [\d.]+ with float32 \(.+\)", notes[1]
    )
    large = translation.path / "exports" / "ctranslate2" / "model.bin"
    assert (small / "model.bin").stat().st_size < 0.7 * large.stat().st_size
    spec = translation_spec(translation.model)  # type: ignore[arg-type]
    spec.decoder.validate()
    spec.encoder.validate()
    quantize(spec)
    found = list[np.ndarray]()
    visit_spec(
        spec,
        lambda layer, name, value: (
            found.append(value.numpy())
            if isinstance(value, NumpyVariable) and value.dtype == "int8"
            else None
        ),
    )
    matrices = [one for one in found if one.ndim == 2]
    assert matrices
    assert all(np.abs(one.astype(int)).max() == LARGEST for one in matrices)
    for name, weight in translation.model.state_dict().items():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)


def test_the_example_of_the_documentation_works_without_limelight(translation: Run, exported: Run) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    (example,) = (block for block in blocks if "ctranslate2" in block)
    code = f"import sys\nsys.modules['limelight'] = None\n{example}"
    folder = str(translation.path / "exports" / "ctranslate2")
    found = run_process(
        [sys.executable, "-c", code, folder, "one two three"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == translation.predict("one two three")[0].text
