"""`--compile` with every recipe: without code generation here, with the C++ compiler in `make torture`."""

import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from command import command

import limelight
from limelight.experiment.config import experiment

# A warning that torch causes itself.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
SMALL: dict[str, Any] = {
    "task.data.train": 60,
    "task.data.validation": 20,
    "task.data.test": 20,
    "model.width": 8,
    "train.batch": 20,
    "train.epochs": 1,
}
TABLE = "text,label\n" + "".join(
    f"{'good' if i % 2 else 'bad'} film number {i % 7},{i % 2}\n" for i in range(80)
)
# All of one length: each new length is compiled again, as in `make torture`.
PAIRS = "".join(f"{' '.join(words)}\t{' '.join(words[::-1])}\n" for words in product("abcd", repeat=3))
OF_PAIRS: dict[str, Any] = {
    "task.vocabulary.kind": "words",
    "task.vocabulary.rarest": 1,
    "task.data.validation": 0.125,
    "task.data.test": 0.125,
    "train.batch": 16,
}
RECIPES = (
    "reverse",
    "odd-one-out",
    "brackets",
    "majority",
    "count",
    "text",
    "translate",
    "translate-rnn",
    "digits",
)


def settings_for(recipe: str, folder: Path) -> tuple[dict[str, Any], Path | None]:
    settings, data = dict(SMALL), None
    if recipe in ("text", "digits"):
        settings = {key: value for key, value in settings.items() if not key.startswith("task.")}
    if recipe == "text":
        data = folder / "films.csv"
        data.write_text(TABLE)
    if recipe.startswith("translate"):
        settings["task.vocabulary.size"] = 200
    if recipe == "digits":
        settings["train.epochs"] = 0.05
    depths = ("depth", "encoder_depth", "decoder_depth")
    fields = type(experiment(recipe).model).model_fields
    settings |= {f"model.{name}": 1 for name in depths if name in fields}
    return settings, data


@pytest.mark.parametrize("recipe", ["reverse", "brackets", "translate", "translate-rnn", "digits"])
def test_every_kind_of_model_can_be_trained_with_torch_compile(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler.reset()
    settings, data = settings_for(recipe, tmp_path)
    if recipe.startswith("translate"):
        del settings["task.data.train"], settings["task.vocabulary.size"]
        settings |= OF_PAIRS
        data = tmp_path / "pairs.tsv"
        data.write_text(PAIRS)
    if recipe == "brackets":
        settings |= {"task.data.shortest": 8, "task.data.longest": 8}
    calls = []

    def compile_quickly(model: torch.nn.Module) -> Any:
        calls.append(model)
        return real(model, backend="aot_eager")

    real = torch.compile
    plain = limelight.train(recipe, settings, out=tmp_path / "plain", data=data)
    monkeypatch.setattr(torch, "compile", compile_quickly)
    made = limelight.train(recipe, settings, out=tmp_path / "run", data=data, compiled=True)
    assert len(calls) == 1
    assert made is not None
    assert plain is not None
    if made.experiment.model.kind != "vit":  # the random draws may have another order
        for one, other in zip(made.journal, plain.journal, strict=True):
            assert one["train"]["loss"] == pytest.approx(other["train"]["loss"], rel=0.2)


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_can_be_trained_with_the_option_compile(recipe: str, tmp_path: Path) -> None:
    settings, data = settings_for(recipe, tmp_path)
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    options += ["--data", str(data)] if data else []
    program = [sys.executable, "-m", "limelight", "train", recipe, *options, "--compile"]
    done = subprocess.run([*program, "--out", str(tmp_path / "run")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.json").is_file()


def test_a_missing_cpp_compiler_is_a_one_line_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PATH", "HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    options = ["--set", "task.data.train=60", "--compile", "--out", str(tmp_path / "run")]
    done = command("train", "reverse", *options)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("limelight: torch.compile failed: ")
    assert last.endswith("; train without --compile")
    assert "Traceback" not in done.stderr
