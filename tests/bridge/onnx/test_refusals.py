"""What cannot be exported or read is refused in one line."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import refused

import limelight
from limelight.errors import Stopped
from limelight.experiment import Run
from limelight.experiment.engines import digest_of_file
from limelight.experiment.exports import export


@pytest.fixture
def run(exported: Callable[[str], Run], tmp_path: Path) -> Run:
    """A copy of an exported run, which a test may damage."""
    place = shutil.copytree(exported("reverse").path, tmp_path / "run")
    return limelight.open_run(place, device="cpu")


def answer(run: Run) -> str:
    """The refusal of an answer by onnxruntime."""
    return refused(lambda: limelight.open_run(run.path, device="cpu", engine="onnx").predict("1 2 3"))


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named(run: Run, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not answer(run)
    for name in [name for name in sys.modules if name.startswith("limelight.bridge.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    message = f"onnx needs the package {package}; install it with: pip install 'limelight[onnx]'"
    assert refused(export, run, "onnx") == answer(run) == message


def test_weights_cannot_be_quantized(run: Run) -> None:
    message = refused(export, run, "onnx", quantize="int8")
    assert message == "--quantize is 'int8'; allowed: nothing with --to onnx"


@pytest.mark.parametrize("name", ["model.onnx", "limelight.json"])
def test_a_damaged_export_is_refused(run: Run, name: str) -> None:
    path = run.path / "exports" / "onnx" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "is damaged: its checksum is wrong; run `" in answer(run)
    path.write_bytes(content)
    assert not answer(run)


def test_a_file_that_is_no_graph_is_refused(run: Run) -> None:
    """Its checksum is right."""
    folder = run.path / "exports" / "onnx"
    (folder / "model.onnx").write_bytes(b"no graph")
    manifest = json.loads((folder / "export.json").read_text())
    manifest["files"]["model.onnx"] = digest_of_file(folder / "model.onnx")
    (folder / "export.json").write_text(json.dumps(manifest))
    assert "onnxruntime cannot read it" in answer(run)


def test_an_export_of_other_weights_is_refused(run: Run) -> None:
    manifest = run.path / "exports" / "onnx" / "export.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"weights": "0" * 64}))
    assert "has other weights than the run; run `" in answer(run)
    auto = limelight.open_run(run.path, device="cpu", engine="auto")
    assert auto.answering is auto.model
    export(run, "onnx")
    assert not answer(run)


def test_a_refused_export_leaves_the_older_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was not verified stays, also no unfinished folder."""
    folder = run.path / "exports"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name in ("TOLERANCE", "RELATIVE"):
        monkeypatch.setattr(sys.modules["limelight.bridge.onnx.verify"], name, -1.0)
    with pytest.raises(Stopped, match="differs from torch"):
        export(run, "onnx")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert [path.name for path in folder.iterdir()] == ["onnx"]
