"""`--compile`: with code generation for one recipe here, and for every recipe in `make torture`."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command import command
from small_recipes import small

import limelight
from limelight.experiment import recipes
from limelight.training.journal import read_journal

# A warning that torch causes itself.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
COMPILER = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
# Each new length is compiled again.
ONE_LENGTH: dict[str, Any] = {"task.data.shortest": 8, "task.data.longest": 8}


def check_same_training(recipe: str, compiled: list[dict[str, Any]], plain: list[dict[str, Any]]) -> None:
    """The losses of a compiled run are close to those of a plain run."""
    assert len(compiled) == len(plain) > 0
    if limelight.experiment.experiment(recipe).model.kind == "vit":
        return  # the random draws may have another order
    for one, other in zip(compiled, plain, strict=True):
        assert one["train"]["loss"] == pytest.approx(other["train"]["loss"], rel=0.2)


@pytest.mark.parametrize("recipe", ["brackets", "translate", "digits"])
def test_models_can_be_trained_with_torch_compile(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler.reset()
    settings, data = small(recipe, tmp_path)
    if recipe == "brackets":
        settings |= ONE_LENGTH
    calls = []

    def compile_quickly(model: torch.nn.Module) -> Any:
        calls.append(model)
        return real(model, backend="aot_eager")  # without code generation

    real = torch.compile
    plain = limelight.train(recipe, settings, out=tmp_path / "plain", data=data)
    monkeypatch.setattr(torch, "compile", compile_quickly)
    made = limelight.train(recipe, settings, out=tmp_path / "run", data=data, compiled=True)
    assert len(calls) == 1
    check_same_training(recipe, made.journal, plain.journal)


def check_compiled_command(recipe: str, folder: Path, settings: dict[str, Any]) -> None:
    """`limelight train` with --compile generates code, and trains like the command without it."""
    wanted, data = small(recipe, folder)
    options = [f"--set={key}={value}" for key, value in (wanted | settings).items()]
    options += ["--data", str(data)] if data else []
    for out, added in (("plain", []), ("compiled", ["--compile"])):
        done = command("train", recipe, *options, *added, "--out", str(folder / out))
        assert done.returncode == 0, done.stderr
        assert (folder / out / "report.json").is_file()
        assert bool(list((folder / "cache").rglob("*.cpp"))) is bool(added)
    journals = [read_journal(folder / out / "metrics.jsonl") for out in ("compiled", "plain")]
    check_same_training(recipe, *journals)


@COMPILER
def test_the_option_compile_generates_code_that_trains_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    check_compiled_command("majority", tmp_path, ONE_LENGTH)


@COMPILER
@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("recipe", sorted(recipes()))
def test_every_recipe_can_be_trained_with_the_option_compile(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    check_compiled_command(recipe, tmp_path, {})


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
