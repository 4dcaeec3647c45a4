"""What is not exported to Hugging Face: settings without a counterpart, and models that would differ."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from own_runs import BERT, FIRST, GPT2, LETTERS, LLAMA, SIZES, TEXT, VIT, Notes, trained
from small_recipes import small
from support import must_fail, refused
from torch import Tensor

import limelight
from limelight.bridge.huggingface.export_encoders import export_encoder
from limelight.bridge.huggingface.exporting import write_model
from limelight.bridge.huggingface.verifying import difference_in_transformers, random_inputs
from limelight.errors import Stopped
from limelight.experiment import Run, import_model
from limelight.experiment.exports import export
from limelight.training.weights import weights_of

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "pre-norm BERT": ("masked", BERT | {"model.norm": "pre"}, "model.norm is 'pre'; BERT of transformers"),
    "rotary BERT": ("masked", BERT | {"model.positions": "rotary"}, "model.positions is 'rotary'"),
    "no norm": ("masked", BERT | {"model.embedding_norm": False}, "model.embedding_norm is False"),
    "mean pooling": ("majority", BERT | FIRST | {"model.pooling": "mean"}, "model.pooling is 'mean'"),
    "norm in the head": ("majority", BERT | FIRST | {"model.head": "norm-relu"}, "model.head is 'norm-relu'"),
    "ε of DistilBERT": ("majority", BERT | FIRST | {"model.head": "relu"}, "model.norm_epsilon is None"),
    "one label per item": ("reverse", {}, "model.kind is 'labeller'"),
    "a linear path": ("text", BERT | TEXT | {"model.linear": 1.0}, "model.linear is 1.0"),
    "causal": ("brackets", BERT | {"model.causal": True}, "model.causal is True"),
    "GEGLU": ("language", LLAMA | LETTERS | {"model.feedforward": "geglu"}, "model.feedforward is 'geglu'"),
    "ALiBi": ("language", GPT2 | LETTERS | {"model.positions": "alibi"}, "model.positions is 'alibi'"),
    "normalised queries": (
        "language",
        LLAMA | LETTERS | {"model.query_key_norm": True},
        "model.query_key_norm is True",
    ),
    "sinks": ("language", LLAMA | LETTERS | {"model.window": 5, "model.sinks": 1}, "model.sinks is 1"),
    "mean of patches": ("digits", VIT | {"model.pooling": "mean"}, "model.pooling is 'mean'"),
    "sinusoids of patches": ("digits", {"model.depth": 1}, "model.positions is 'sinusoidal'"),
    "pre-norm translator": ("translate", {}, "model.norm is 'pre'; Marian of transformers"),
    "recurrent": ("translate-rnn", {}, "model.kind is 'recurrent'"),
}


@pytest.mark.parametrize(("recipe", "settings", "words"), REFUSED.values(), ids=REFUSED)
def test_what_transformers_lacks_is_refused_by_name(
    recipe: str, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    own, data = small(recipe, tmp_path)
    sizes = {key: value for key, value in SIZES.items() if key in own}
    limelight.train(recipe, own | sizes | settings, tmp_path / "run", data=data, device="cpu")
    run = limelight.open_run(tmp_path / "run", device="cpu")
    message = refused(export, run, "huggingface")
    assert words in message
    assert "\n" not in message
    assert not list((run.path / "exports").iterdir())


@pytest.fixture
def majority(tmp_path: Path) -> Run:
    (tmp_path / "runs").mkdir()
    return trained("majority", BERT | FIRST, tmp_path / "runs")


def test_a_model_that_computes_something_else_leaves_nothing(majority: Run) -> None:
    hook = majority.model.register_forward_hook(lambda _, __, out: out + 3e-3)
    for place in (None, majority.path.parent / "other"):
        with pytest.raises(Stopped, match="differs from that of the run by"):
            export(majority, "huggingface", place)
    assert not list((majority.path / "exports").iterdir())
    assert sorted(path.name for path in majority.path.parent.iterdir()) == ["run"]
    hook.remove()
    assert export(majority, "huggingface").is_dir()


def test_one_changed_weight_is_noticed(majority: Run, tmp_path: Path) -> None:
    def check_write(weights: dict[str, Tensor], name: str) -> None:
        (tmp_path / name).mkdir()
        try:
            write_model(
                tmp_path / name, majority.experiment.model, majority.task, majority.model, weights, []
            )
        except Stopped as error:
            raise AssertionError(error) from None

    weights = {name: one.clone() for name, one in weights_of(majority.model).items()}
    check_write(weights, "equal")
    weights["encoder.encoder.blocks.0.feedforward.expand.weight"][3, 5] += 0.5
    must_fail(check_write, weights, "changed")


def test_other_outputs_of_transformers_are_noticed(majority: Run) -> None:
    """Another ε, which an import of limelight would read, too."""
    folder = export(majority, "huggingface")
    made = export_encoder(majority.experiment.model, majority.task, weights_of(majority.model))  # type: ignore[arg-type]
    inputs = random_inputs(majority.model, majority.task)
    with torch.no_grad():
        expected = majority.model(*inputs.ours)
    assert difference_in_transformers(folder, made, inputs, expected) < 1e-5
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"layer_norm_eps": 0.1}))
    assert difference_in_transformers(folder, made, inputs, expected) > 1e-3


def test_without_transformers_a_note_says_that_nothing_was_compared_with_it(
    majority: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, others = Notes(), Notes()
    export(majority, "huggingface", watcher=notes)
    monkeypatch.setitem(sys.modules, "transformers", None)
    folder = export(majority, "huggingface", watcher=others)
    missing = "not compared with transformers, which is not installed"
    assert missing in others.texts
    assert missing in (folder / "README.md").read_text()
    assert missing not in notes.texts
    assert any("read back by limelight: all weights equal" in note for note in others.texts)


def test_a_model_card_has_the_results_and_the_figures(majority: Run) -> None:
    folder = export(majority, "huggingface")
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "pipeline_tag: text-classification" in card
    report = majority.report
    for split in report["metrics"]:
        assert f"| {split} | accuracy |" in card
    assert "share of correct predictions" in card
    assert "Licence: not stated" in card
    assert f"{report['parameters']:,}" in card
    for figure in majority.path.glob("*.png"):
        assert f"]({figure.name})" in card
        assert (folder / figure.name).read_bytes() == figure.read_bytes()
    assert str(majority.path) not in card


def test_a_tokenizer_that_would_read_a_text_in_another_way_is_not_written(tmp_path: Path) -> None:
    """Python's lower case of a final Σ is ς; that of the package tokenizers is σ."""
    table = tmp_path / "greek.csv"
    rows = [f"{'ΛΟΓΟΣ ΚΑΙ' if i % 2 else 'ΗΛΙΟΣ'} number {i % 7},{i % 2}" for i in range(60)]
    table.write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    settings = BERT | TEXT | {"task.data.vocabulary": "words", "train.epochs": 1, "train.epoch_steps": 0}
    run = limelight.train("text", SIZES | settings, tmp_path / "run", data=table, device="cpu")
    notes = Notes()
    folder = export(run, "huggingface", watcher=notes)
    assert any("no tokenizer" in note and "ΟΣ" in note for note in notes.texts)
    assert not list(folder.glob("*token*"))
    assert (folder / "data.json").read_text(encoding="utf-8") == run.task.state
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "no tokenizer" in card
    assert "AutoTokenizer" not in card
    assert "has no tokenizer.json" in refused(import_model, folder, tmp_path / "again")
