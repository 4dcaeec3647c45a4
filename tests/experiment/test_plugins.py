"""A task in a plug-in can be trained, resumed, evaluated, predicted, seen and served."""

import importlib.util
import os
import py_compile
import shutil
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from support import must_fail, not_none
from tiny import StopAt

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run, experiment
from limelight.experiment.pages import about, write_records
from limelight.experiment.plugins import load_plugin
from limelight.training.interrupt import Interrupted

PLUGIN = Path(__file__).parents[2] / "examples" / "own_task.py"
SHORT = {"train.epochs": 0.5}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return limelight.train(PLUGIN, SHORT, out=tmp_path_factory.mktemp("gaps") / "run")


def weights(run: Run) -> bytes:
    return (max(run.path.glob("checkpoints/*")) / "weights.safetensors").read_bytes()


def test_the_example_plug_in_has_at_most_60_lines() -> None:
    assert len(PLUGIN.read_text().splitlines()) <= 60


def test_a_plug_in_is_trained_and_writes_a_report_and_figures(run: Run) -> None:
    assert set(run.report["metrics"]["test"]) == {"loss", "mae"}
    assert run.evaluate("test") == run.report["metrics"]["test"]
    assert {path.name for path in run.path.glob("*.png")} == {"attention.png", "curves.png"}


def test_a_plug_in_predicts_lines_and_tensors(run: Run) -> None:
    line = "0.10 ? 0.74 0.98"
    items = torch.tensor([[0.10, 1], [0, 0], [0.74, 1], [0.98, 1]])
    of_line, of_tensor = run.predict([line, items])
    assert of_line == of_tensor
    assert len(of_line.text.split()) == 4
    assert len(run.predict([run.sample])[0].text.split()) == 24
    with pytest.raises(WrongInput, match=r"^input 1 is .* allowed: \(T, 2\), of numbers$"):
        run.predict([torch.zeros(3, 3)])


def test_the_attention_of_a_plug_in_is_recorded_drawn_and_served(run: Run, tmp_path: Path) -> None:
    (record,) = run.see("0.10 ? 0.74 0.98").records
    assert record.sides["source"] == ("0.1", "?", "0.7", "1.0")
    assert [(one.part, one.heads) for one in record.maps] == [("encoder", 4), ("encoder", 4)]
    for name in ("records.png", "records.html", "records.json"):
        write_records(run, None, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1_000
    assert about(run).kind == "text"  # for the live page
    assert about(run).sample


def test_a_resumed_plug_in_run_ends_with_the_same_bits(run: Run, tmp_path: Path) -> None:
    def check(step: int, expected: bytes) -> None:
        folder = tmp_path / str(step)
        with pytest.raises(Interrupted):
            limelight.train(PLUGIN, SHORT, out=folder, watcher=StopAt(step))
        again = limelight.train(folder, resume=True)
        assert weights(again) == expected

    check(11, weights(run))
    must_fail(check, 12, b"other weights")


def test_the_run_folder_has_a_copy_of_the_file_and_its_digest(run: Run, tmp_path: Path) -> None:
    written = tomllib.loads((run.path / "experiment.toml").read_text())
    assert (run.path / written["plugin"]).read_bytes() == PLUGIN.read_bytes()
    moved = tmp_path / "moved"
    shutil.copytree(run.path, moved)
    with pytest.warns(UserWarning, match=r"moved runs the code of its plug-in .*moved/plugin\.py"):
        opened = limelight.open_run(moved)
    assert opened.predict(["0.1 ? 0.3"]) == run.predict(["0.1 ? 0.3"])
    with (moved / "plugin.py").open("a") as file:
        file.write("raise SystemExit('changed code must not run')\n")
    with pytest.raises(WrongInput, match=r"moved/plugin\.py has changed: its SHA-256 is "):
        limelight.open_run(moved)


def test_a_run_is_not_resumed_with_a_changed_plug_in(run: Run, tmp_path: Path) -> None:
    changed = tmp_path / "changed.py"
    changed.write_text(PLUGIN.read_text() + "# changed\n")
    with pytest.raises(WrongInput, match="plugin_digest was "):
        limelight.train(changed, SHORT, out=run.path, resume=True)


def test_a_toml_file_names_the_plug_in_beside_it(tmp_path: Path) -> None:
    shutil.copy(PLUGIN, tmp_path / "mine.py")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nplugin = "mine.py"\n[task]\nkind = "gaps"\n[task.data]\n[model]\nkind = "labeller"\n'
    )
    wanted = experiment(tmp_path / "mine.toml", {"model.heads": 2})
    assert (wanted.task.kind, wanted.model.model_dump()["heads"]) == ("gaps", 2)
    assert wanted.plugin == str(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "has no RECIPE"),
        ("import missing_package", "ModuleNotFoundError: No module named 'missing_package'"),
        ("RECIPE = {'name': 'x', 'task': {'kind': 'absent'}}", r"task\.kind is 'absent'; allowed: "),
        (
            PLUGIN.read_text().replace('Literal["gaps"] = "gaps"', 'Literal["label"] = "label"'),
            "choose another",
        ),
    ],
    ids=["no recipe", "import error", "unknown task", "kind of a built-in task"],
)
def test_a_plug_in_that_cannot_be_used_is_refused(code: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(code)
    with pytest.raises(WrongInput, match=message):
        experiment(tmp_path / "broken.py")


def test_only_the_file_itself_is_run_and_not_a_compiled_copy(tmp_path: Path) -> None:
    """A forged .pyc file beside a plug-in has no digest. Python's own import would run it."""
    plugin, other = tmp_path / "mine.py", tmp_path / "other.py"
    plugin.write_text("RECIPE = 'the file itself'\n")
    other.write_text("RECIPE = 'compiled copy  '\n")  # of the same size and time, as Python compares them
    os.utime(other, ns=(plugin.stat().st_atime_ns, plugin.stat().st_mtime_ns))
    forged = Path(importlib.util.cache_from_source(str(plugin)))
    py_compile.compile(str(other), str(forged), doraise=True)

    def check(module: ModuleType) -> None:
        assert module.RECIPE == "the file itself"

    check(load_plugin(plugin).module)
    spec = not_none(importlib.util.spec_from_file_location("mine", plugin))
    by_python = importlib.util.module_from_spec(spec)
    not_none(spec.loader).exec_module(by_python)
    must_fail(check, by_python)


def test_a_missing_plug_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"missing\.py"):
        experiment(tmp_path / "missing.py")
