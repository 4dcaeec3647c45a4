"""Folders with our weights and settings: every bit is read back, and an import makes a run of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command import command
from safetensors.torch import load_file, save_file
from small_recipes import small
from support import must_fail, refused

import limelight
from limelight.bridge.safetensors import check_written
from limelight.errors import Stopped
from limelight.experiment import Run, import_model
from limelight.experiment.exports import export
from limelight.training.weights import weights_of


@pytest.fixture(scope="module", params=["majority", "text", "translate", "digits", "language"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of a few steps."""
    folder = tmp_path_factory.mktemp("own")
    settings, data = small(request.param, folder)
    return limelight.train(request.param, settings, folder / "run", data=data, device="cpu")


def test_every_bit_is_exported_and_imported(run: Run, tmp_path: Path) -> None:
    folder = export(run, "safetensors", tmp_path / "export")
    weights, found = weights_of(run.model), load_file(folder / "model.safetensors")
    assert found.keys() == weights.keys()
    assert all(found[name].numpy().tobytes() == weights[name].numpy().tobytes() for name in found)
    again = import_model(folder, tmp_path / "again")
    assert again.experiment.model == run.experiment.model
    assert again.task.state == run.task.state == (folder / "data.json").read_text()
    for one, other in zip(run.model.parameters(), again.model.parameters(), strict=True):
        assert one.equal(other)
    if run.task.input_kind == "text":
        given = run.sample
        assert run.predict([given])[0].text == again.predict([given])[0].text
    content = (folder / "config.json").read_text() + (folder / "README.md").read_text()
    assert str(run.path.parent) not in content


def test_a_changed_tensor_is_noticed(tmp_path: Path) -> None:
    weights = {"a": torch.randn(3, 5), "b": torch.zeros(7)}
    save_file(weights, tmp_path / "model.safetensors")

    def check(weights: dict[str, torch.Tensor]) -> None:
        try:
            check_written(tmp_path, weights)
        except Stopped as error:
            raise AssertionError(error) from None

    check(weights)
    must_fail(check, weights | {"b": torch.tensor([-0.0] * 7)})  # equal, but other bits
    must_fail(check, weights | {"b": torch.zeros(1, 7)})
    must_fail(check, weights | {"b": torch.zeros(7, dtype=torch.int32)})
    must_fail(check, {"a": weights["a"]})


def test_a_damaged_folder_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    folder = export(run, "safetensors", tmp_path / "export")
    settings = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    name = next(iter(tensors))
    for changed, words in {
        json.dumps(settings | {"task": {"kind": "unknown"}}): "config.json: task",
        json.dumps(settings | {"model": settings["model"] | {"depht": 3}}): "depht",
        json.dumps(settings | {"auto_map": {}}): "asks for code of its own",
        "[": "not valid JSON",
    }.items():
        (folder / "config.json").write_text(changed)
        message = refused(import_model, folder, tmp_path / "run")
        assert words in message
        assert "\n" not in message
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(tensors | {name: torch.ones(2, 3, 5, 7)}, folder / "model.safetensors")
    assert f"{name} has shape (2, 3, 5, 7)" in refused(import_model, folder, tmp_path / "run")
    save_file({key: one for key, one in tensors.items() if key != name}, folder / "model.safetensors")
    assert f"has no tensor {name}" in refused(import_model, folder, tmp_path / "run")
    save_file(tensors | {"more": torch.ones(1)}, folder / "model.safetensors")
    assert "more has shape (1,); allowed: none" in refused(import_model, folder, tmp_path / "run")
    assert "--task is 'embed'" in refused(import_model, folder, tmp_path / "run", task="embed")
    (folder / "data.json").unlink()
    assert "has no data.json" in refused(import_model, folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_card_is_complete_and_its_code_runs(run: Run, tmp_path: Path) -> None:
    folder = export(run, "safetensors", tmp_path / "export")
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: limelight\ntags:\n- limelight\n")
    assert "licence" not in card.split("---")[1]
    assert run.experiment.model.summary in card
    metrics = [name for values in run.report["metrics"].values() for name in values]
    for name in metrics:
        assert f"| {name} |" in card
    assert f"Seed: {run.experiment.seed}" in card
    for note in run.report["data"]:
        assert f"- {note}" in card or str(run.path.parent) in note
    for figure in run.path.glob("*.png"):
        assert f"]({figure.name})" in card
        assert (folder / figure.name).is_file()
    blocks = [block.removeprefix("python\n") for block in card.split("```")[1::2]]
    code = blocks[-1].replace('"model.safetensors"', repr(str(folder / "model.safetensors")))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert next(iter(weights_of(run.model))) in done.stdout


def test_the_command_exports_and_imports(tmp_path: Path) -> None:
    settings, _ = small("majority", tmp_path)
    limelight.train("majority", settings, tmp_path / "run", device="cpu")
    done = command("export", str(tmp_path / "run"), "--to", "safetensors")
    assert done.returncode == 0, done.stderr
    assert "equal in every bit" in done.stderr
    place = done.stdout.strip()
    done = command("import", place, "--out", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    assert command("export", str(tmp_path / "run"), "--to", "pickle").returncode == 2
