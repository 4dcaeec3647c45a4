"""A run that starts from the weights of another run."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import command
from drawn import noise
from small_recipes import write_texts
from support import must_fail

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.config import experiment
from limelight.experiment.pages import draw_page
from limelight.experiment.start import _renamed, find_start, resolve
from limelight.models.classifier import ClassifierConfig
from limelight.models.decoder_only import DecoderOnlyConfig
from limelight.models.sizes import Sizes
from limelight.training.start import take_weights
from limelight.training.weights import from_bytes, weights_of

KILLS = Path(__file__).parent.parent / "training" / "kills.py"
SMALL: dict[str, Any] = {"train.epochs": 0.05, "train.epoch_steps": 20}
OF_SOURCE = {"model.width": 8, "model.hidden": 13, "model.depth": 2, "model.positions": "rotary"}
PAIRS: dict[str, Any] = {
    "model.width": 8,
    "model.heads": 2,
    "model.hidden": 13,
    "model.encoder_depth": 1,
    "model.decoder_depth": 1,
    "task.vocabulary.size": 40,
    "task.data.validation": 0.2,
    "task.data.test": 0.2,
    "train.epochs": 0.5,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("source")
    data = write_texts(folder / "old.csv", "good bad quite rather")
    return limelight.train("text", SMALL | OF_SOURCE, folder / "run", data=data)


@pytest.fixture(scope="module")
def tuned(source: Run) -> Run:
    data = write_texts(source.path.parent / "new.csv", "fine dull quite unheard")
    out = source.path.parent / "tuned"
    return limelight.train("text", SMALL, out, data=data, start=source.path)


def weights_at_start(run: Run) -> dict[str, torch.Tensor]:
    """The weights of the checkpoint before the first step."""
    return from_bytes((run.path / "checkpoints" / "step-00000000" / "weights.safetensors").read_bytes())


def test_the_run_starts_with_the_weights_the_model_and_the_vocabulary_of_the_other(
    source: Run, tuned: Run
) -> None:
    start, theirs = weights_at_start(tuned), weights_of(source.model)
    assert all(tensor.equal(theirs[name]) for name, tensor in start.items())
    assert start.keys() == theirs.keys()
    model: Any = tuned.experiment.model
    assert (model.width, model.hidden, model.depth, model.positions) == (8, 13, 2, "rotary")
    assert any(not weights_of(tuned.model)[name].equal(tensor) for name, tensor in start.items())
    tuned_task, source_task = tuned.task, source.task
    assert tuned_task.reader == source_task.reader
    assert limelight.open_run(tuned.path).dataset.digest == tuned.dataset.digest
    (record,) = tuned.see("quite unheard").records
    assert record.sides["source"] == ("quite", "unheard (unk)")


def test_without_the_other_run_the_vocabulary_is_another(source: Run, tuned: Run) -> None:
    alone, _ = experiment("text", SMALL, tuned.path.parent / "new.csv").task.load(1)
    assert alone.reader != source.task.reader


def test_the_run_notes_where_it_came_from(source: Run, tuned: Run) -> None:
    (file,) = source.path.glob("checkpoints/*/weights.safetensors")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (tuned.report["start"], tuned.report["start_digest"]) == (str(source.path), digest)
    assert (tuned.experiment.start, tuned.experiment.start_digest) == (str(source.path), digest)
    page = draw_page(tuned)
    assert digest in page
    assert str(source.path) not in page  # a page may be shared
    assert "start" not in (source.path / "experiment.toml").read_text()
    assert source.report["start"] == ""


def test_the_command_lists_what_is_taken_and_what_is_not(source: Run, tmp_path: Path) -> None:
    rows = [f"quite {'good' if i % 3 else 'bad'} {i},{'abc'[i % 3]}" for i in range(60)]
    (tmp_path / "three.csv").write_text("\n".join(["text,label", *rows]))
    settings = ["--set", "train.epochs=0.02", "--set", "model.pooling=attention", "--set", "model.depth=3"]
    done = command(
        *("train", "text", "--data", str(tmp_path / "three.csv"), "--from", str(source.path)),
        *(*settings, "--out", str(tmp_path / "run")),
    )
    assert done.returncode == 0, done.stderr
    before, _, _ = done.stderr.partition("step 0 of")
    width = "model.width = 8, model.hidden = 13, model.positions = rotary"
    assert f"settings of {source.path}: {width}\n" in before
    assert f"weights are those of {source.path}\n" in before
    assert "new weights: encoder.encoder.blocks.2, pooling\n" in before
    assert "because of another shape: output.4.weight (2×8 there, 3×8 here), output.4.bias" in before
    assert f"vocabulary: the {source.task.sizes.vocabulary:,} words of the run to start from" in before
    assert "started from" in done.stdout


def refused(*arguments: str) -> str:
    """The only line of a command that ends with exit code 2."""
    done = command("train", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_source_that_does_not_fit_is_refused_in_one_line(source: Run, tmp_path: Path) -> None:
    """No file is written."""
    data, out = str(source.path.parent / "old.csv"), ("--out", str(tmp_path / "out"))
    start = ("--from", str(source.path))
    message = refused("text", "--data", data, "--from", str(tmp_path), *out)
    assert f"{tmp_path} is not a run folder: it has no experiment.toml" in message
    shutil.copytree(source.path, tmp_path / "begun", ignore=shutil.ignore_patterns("checkpoints"))
    message = refused("text", "--data", data, "--from", str(tmp_path / "begun"), *out)
    assert "has no valid checkpoint; train it first" in message
    message = refused("text", "--data", data, *start, "--set", "model.width=16", *out)
    assert f"model.width is 16; allowed: 8, the width of {source.path}" in message
    message = refused("majority", *start, *out)
    assert "the vocabulary of the run to start from is ngrams (13); allowed: 4 symbols: a b c d" in message
    assert "is not one of translation" in refused("translate", *start, *out)
    assert "is not one of images" in refused("digits", *start, *out)
    freeze = ("--set", 'train.freeze=["encoder.blocks.0"]')
    message = refused("text", "--data", data, *start, *freeze, *out)
    assert "no part 'encoder.blocks.0'; did you mean 'encoder.encoder.blocks.0'?" in message
    assert not (tmp_path / "out").exists()


def test_symbols_with_another_meaning_are_refused() -> None:
    sizes = {f"task.data.{split}": 60 for split in ("train", "validation", "test")}
    majority, count, brackets = (experiment(name, sizes).task for name in ("majority", "count", "brackets"))
    task, _ = majority.load(1)
    assert count.load_from(1, task)[0].reader == task.reader
    with pytest.raises(WrongInput, match=r"is 4 symbols: a b c d; allowed: 4 symbols: \( \) \[ \]"):
        brackets.load_from(1, task)


def test_a_translator_keeps_its_languages(tmp_path: Path) -> None:
    for name, words in (("old", "abcd"), ("new", "abxy")):
        rows = [f"{one} {two} {i}\t{two} {one} {i}" for i in range(5) for one in words for two in words]
        (tmp_path / f"{name}.txt").write_text("\n".join(rows) + "\n")
    old, new = (experiment("translate", PAIRS, tmp_path / f"{name}.txt").task for name in ("old", "new"))
    task, _ = old.load(1)
    ours, theirs = (json.loads(one.state) for one in (new.load_from(1, task)[0], task))
    assert all(ours[side] == theirs[side] for side in ("source", "target"))
    assert json.loads(new.load(1)[0].state)["source"] != theirs["source"]


def test_images_are_normalised_as_in_the_other_run(tmp_path: Path) -> None:
    for name, brightness in (("old", 1.0), ("new", 0.5)):
        for label in ("cat", "dog"):
            (tmp_path / name / label).mkdir(parents=True)
            for i in range(12):
                image = noise(8, 8, seed=i).point(lambda value, by=brightness: value * by)
                image.save(tmp_path / name / label / f"{i}.png")
    size = {"task.data.size": 8}
    old, new = (experiment("images", size, tmp_path / name).task for name in ("old", "new"))
    task, _ = old.load(1)
    ours, theirs, alone = (json.loads(one.state) for one in (new.load_from(1, task)[0], task, new.load(1)[0]))
    assert (ours["mean"], ours["deviation"]) == (theirs["mean"], theirs["deviation"])
    assert alone["mean"] != theirs["mean"]


def test_a_language_model_becomes_a_classifier_that_computes_the_same() -> None:
    """Its embedding and its blocks have other names there; it stays causal."""
    config = DecoderOnlyConfig(width=8, heads=2, hidden=13, depth=3)
    sizes = Sizes(outputs=11, vocabulary=11, longest=7)
    language = config.build(sizes).eval()
    like = ClassifierConfig().settings_like(config)
    assert {"causal": True, "depth": 3, "positions": "rotary", "norm": "pre"}.items() <= like.items()
    assert not {"dropout", "kind", "tied"} & like.keys()
    tokens_BT = torch.randint(11, (2, 7))

    def check(causal: bool) -> None:
        classifier: Any = ClassifierConfig(**like | {"causal": causal}).build(sizes).eval()
        weights = _renamed(weights_of(language), DecoderOnlyConfig.parts, ClassifierConfig.parts)
        notes = take_weights(classifier, weights, "runs/language")
        assert notes[1:] == ["new weights: output"]
        expected = language(tokens_BT, logits=False)
        assert torch.allclose(classifier.encoder(tokens_BT), expected, atol=1e-5)

    check(True)
    must_fail(check, False)


def test_a_plug_in_without_a_method_for_it_can_start_from_another_run() -> None:
    plugin = Path(__file__).parent.parent.parent / "examples" / "own_task.py"
    config = experiment(plugin).task
    task, data = config.load(1)
    assert config.load_from(1, task)[1].digest == data.digest


def test_a_toml_file_can_name_the_run_to_start_from(source: Run, tmp_path: Path) -> None:
    text = experiment("text", SMALL, source.path.parent / "old.csv").to_toml()
    (tmp_path / "mine.toml").write_text(f'start = "{source.path}"\n{text}')
    wanted, start = resolve(tmp_path / "mine.toml", {}, None, None)
    given, _ = resolve("text", SMALL, source.path.parent / "old.csv", source.path)
    assert start is not None
    assert wanted == given
    (tmp_path / "resolved.toml").write_text(wanted.to_toml())
    assert resolve(tmp_path / "resolved.toml", {}, None, None) == (wanted, None)
    again = find_start(wanted, tmp_path)
    assert again is not None
    assert again.run is not None
    assert again.run.path == source.path


def test_other_weights_in_the_folder_of_the_source_are_noticed(
    source: Run, tuned: Run, tmp_path: Path
) -> None:
    shutil.copytree(tuned.path, tmp_path / "source")
    other = tuned.experiment.model_copy(update={"start": str(tmp_path / "source")})
    with pytest.raises(WrongInput, match=r"the weights of .*source have changed; start from them again"):
        find_start(other, tmp_path / "out")
    data = tuned.path.parent / "new.csv"
    with pytest.raises(WrongInput, match=r"start_digest was "):
        limelight.train("text", SMALL, tuned.path, data=data, start=tmp_path / "source", resume=True)
    start = find_start(other, tuned.path)  # it has begun: its own checkpoints have the vocabulary
    assert start is not None
    assert start.run is None


def check_kills(*operations: int) -> list[dict[str, bool]]:
    arguments = map(str, operations)
    done = subprocess.run([sys.executable, str(KILLS), "starts", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, bool]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(operations)
    assert all(outcome["killed"] and outcome["same"] for outcome in found), found
    return found


def test_a_killed_run_is_resumed_to_the_same_bits_without_the_run_it_started_from() -> None:
    """Killed before and after the experiment was written, and after the first steps."""
    found = check_kills(20, 22, 37)
    assert [outcome["begun"] for outcome in found] == [False, True, True]


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_kill_at_any_of_sixty_operations_changes_no_bit() -> None:
    check_kills(*range(1, 61))
