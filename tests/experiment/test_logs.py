"""Logs for TensorBoard and MLflow: read with their libraries, equal to the journal, also after a kill."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command import command, python
from read_logs import (
    accumulator,
    check_same,
    client,
    hyper_parameters,
    images,
    mlflow_runs,
    mlflow_scalars,
    scalars_of,
    tensorboard_scalars,
)
from support import must_fail, refused
from tiny import RECIPES, SETTINGS, StopAt

import limelight
from limelight.experiment import Run
from limelight.experiment.logs import LOGS, SPEED
from limelight.training.interrupt import Interrupted
from limelight.training.progress import Watcher

TINY = SETTINGS | RECIPES["majority"] | {"train.epochs": 1}
KILLS = Path(__file__).parent / "log_kills.py"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of MLflow runs, whose name is not the same in a URI."""
    return tmp_path_factory.mktemp("logs") / "runs of MLflow"


@pytest.fixture(autouse=True)
def _use_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.as_uri())


@pytest.fixture(scope="module")
def logged(store: Path) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", store.as_uri())
        return limelight.train("majority", TINY, store.parent / "logged", log=tuple(LOGS))


def from_journal(run: Run) -> dict[str, list[tuple[int, float]]]:
    """The scalars that a log should have, without those that are measured with a clock."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in run.journal:
        found.setdefault("progress/epoch", []).append((line["step"], line["epoch"]))
        for split in ("train", "validation"):
            for name, value in line[split].items():
                found.setdefault(f"{split}/{name}", []).append((line["step"], value))
    for split, metrics in run.report["metrics"].items():
        for name, value in metrics.items():
            found[f"report/{split}/{name}"] = [(run.report["best_step"], value)]
    found["report/parameters"] = [(run.report["best_step"], run.report["parameters"])]
    return found


def as_float32(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """TensorBoard stores scalars in four bytes."""
    return [(step, torch.tensor(value).item()) for step, value in points]


MORE = {"progress/learning_rate", "progress/tokens_per_second", "report/seconds"}


def test_mlflow_reads_exactly_the_numbers_of_the_journal_and_the_report(logged: Run, store: Path) -> None:
    scalars, expected = mlflow_scalars(store, "logged"), from_journal(logged)
    assert scalars.keys() - expected.keys() == MORE
    assert {name: scalars[name] for name in expected} == expected
    assert len(logged.journal) == 3


def test_tensorboard_reads_the_same_numbers(logged: Run, store: Path) -> None:
    expected = {name: as_float32(points) for name, points in mlflow_scalars(store, "logged").items()}
    assert tensorboard_scalars(logged.path) == expected


def test_the_learning_rate_is_that_of_the_last_update(logged: Run, store: Path) -> None:
    peak, warmup, total = logged.experiment.train.rate, 15 // 4, 15
    found = dict(mlflow_scalars(store, "logged")["progress/learning_rate"])
    assert list(found) == [7, 14, 15]
    for step, rate in found.items():
        progress = torch.tensor((step - 1 - warmup) / (total - warmup), dtype=torch.float64)
        assert rate == pytest.approx(peak * 0.5 * (1 + torch.cos(torch.pi * progress)).item())


def test_speeds_are_positive_and_times_increase(logged: Run, store: Path) -> None:
    run = mlflow_runs(store)["logged"]
    points = client(store).get_metric_history(run.info.run_id, "progress/tokens_per_second")
    assert all(point.value > 0 for point in points)
    times = [int(run.info.start_time), *(point.timestamp for point in points), int(run.info.end_time)]
    assert times == sorted(times)
    walls = [one.wall_time for one in accumulator(logged.path).Scalars("train/loss")]
    assert walls == pytest.approx([point.timestamp / 1000 for point in points], rel=0, abs=1e-3)


def test_the_figures_of_the_run_are_in_both(logged: Run, store: Path) -> None:
    drawn = sorted(path.stem for path in logged.path.glob("*.png"))
    assert {"attention", "curves"} <= set(drawn)
    pictures = images(logged.path)
    assert sorted(pictures) == [f"figures/{name}" for name in drawn]
    assert all(len(set(picture.convert("L").tobytes())) > 10 for picture in pictures.values())
    run = mlflow_runs(store)["logged"]
    artifacts = {one.path for one in client(store).list_artifacts(run.info.run_id)}
    assert artifacts == {*(f"{name}.png" for name in drawn), "report.json", "experiment.toml"}
    copy = Path(client(store).download_artifacts(run.info.run_id, "attention.png"))
    assert copy.read_bytes() == (logged.path / "attention.png").read_bytes()


def test_all_settings_are_hyper_parameters(logged: Run, store: Path) -> None:
    run, parameters = mlflow_runs(store)["logged"], hyper_parameters(logged.path).hparams
    assert run.data.params.keys() == set(parameters)
    assert run.data.params["train.batch"] == "10"
    assert parameters["train.batch"].number_value == 10
    assert run.data.params["model.positions"] == parameters["model.positions"].string_value
    assert run.data.params["train.freeze"] == parameters["train.freeze"].string_value == "[]"
    assert parameters["model.causal"].bool_value is False
    assert run.data.params["model.causal"] == "false"


def test_mlflow_shows_the_name_the_state_and_the_description(logged: Run, store: Path) -> None:
    run = mlflow_runs(store)["logged"]
    assert run.info.status == "FINISHED"
    assert run.data.tags["mlflow.note.content"] == logged.experiment.about
    assert run.data.tags["limelight.folder"] == str(logged.path)
    assert client(store).get_experiment("0").name == "Default"


def test_the_client_of_mlflow_can_write_to_the_run(logged: Run, store: Path, tmp_path: Path) -> None:
    run_id = mlflow_runs(store)["logged"].info.run_id
    client(store).set_tag(run_id, "verdict", "good")
    client(store).log_metric(run_id, "my/score", 0.5, step=3)
    assert mlflow_scalars(store, "logged").pop("my/score") == [(3, 0.5)]
    (store / mlflow_runs(store)["logged"].info.experiment_id / run_id / "metrics" / "my" / "score").unlink()


def test_logs_change_no_bit_of_the_result(logged: Run, tmp_path: Path) -> None:
    plain = limelight.train("majority", TINY, tmp_path / "plain")
    for name in ("metrics.jsonl", "checkpoints/step-00000015/weights.safetensors"):
        assert (plain.path / name).read_bytes() == (logged.path / name).read_bytes()
    assert plain.report | {"seconds": 0} == logged.report | {"seconds": 0}
    assert not (plain.path / SPEED).exists()


def check_resumed(folder: Path, store: Path) -> None:
    for name in ("5", "9"):
        check_same(tensorboard_scalars(folder / name), tensorboard_scalars(folder / "whole"))
        check_same(mlflow_scalars(store, name), mlflow_scalars(store, "whole"))


def check_killed(folder: Path, *variant: str) -> None:
    store = folder / "mlruns"
    environment = os.environ | {"MLFLOW_TRACKING_URI": str(store)}
    done = subprocess.run(
        [sys.executable, str(KILLS), str(folder), *variant], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert len(mlflow_runs(store)) == 3
    check_resumed(folder, store)


def test_a_run_that_is_killed_and_resumed_has_the_points_of_an_uninterrupted_one(tmp_path: Path) -> None:
    check_killed(tmp_path / "whole")


def test_a_log_that_is_only_continued_has_a_point_twice(tmp_path: Path) -> None:
    must_fail(check_killed, tmp_path, "broken")
    assert [step for step, _ in tensorboard_scalars(tmp_path / "5")["train/loss"]][:3] == [7, 7, 14]
    assert [step for step, _ in mlflow_scalars(tmp_path / "mlruns", "9")["train/loss"]][:3] == [7, 7, 14]


def test_an_open_tensorboard_shows_no_point_twice_after_resuming(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        limelight.train("majority", TINY, tmp_path / "run", log="tensorboard", watcher=StopAt(9))
    opened = accumulator(tmp_path / "run")
    assert [step for step, _ in scalars_of(opened)["train/loss"]] == [7]
    limelight.train(tmp_path / "run", resume=True, log="tensorboard")
    assert scalars_of(opened.Reload()) == tensorboard_scalars(tmp_path / "run")
    assert [step for step, _ in scalars_of(opened)["train/loss"]] == [7, 14, 15]


def test_mlflow_shows_whether_a_run_was_stopped_and_resuming_finishes_it(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "stopped"
    with pytest.raises(Interrupted):
        limelight.train("majority", TINY, path, log="mlflow", watcher=StopAt(9))
    before = mlflow_runs(store)["stopped"].info
    assert before.status == "KILLED"
    limelight.train(path, resume=True, log="mlflow")
    after = mlflow_runs(store)["stopped"].info
    assert (after.run_id, after.start_time, after.status) == (before.run_id, before.start_time, "FINISHED")


class Failing(Watcher):
    """Fails at the end of a step."""

    def step(self, step: int, tokens: int, metrics: dict[str, float]) -> None:
        if step == 9:
            raise RuntimeError("out of order")


def test_mlflow_shows_that_a_run_has_failed(store: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="out of order"):
        limelight.train("majority", TINY, tmp_path / "failed", log="mlflow", watcher=Failing())
    assert mlflow_runs(store)["failed"].info.status == "FAILED"


def test_a_finished_run_is_logged_afterwards(logged: Run, tmp_path: Path) -> None:
    plain = limelight.train("majority", TINY, tmp_path / "plain")
    limelight.train(plain.path, resume=True, log="tensorboard")
    late, expected = tensorboard_scalars(plain.path), tensorboard_scalars(logged.path)
    assert expected.pop("progress/tokens_per_second")  # it was not measured
    check_same(late, expected)


def test_an_experiment_that_mlflow_has_created_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "mlruns"))
    made = client(tmp_path / "mlruns").create_experiment("majority")
    for name in ("one", "two"):
        limelight.train("majority", TINY | {"train.epochs": 0.1}, tmp_path / name, log="mlflow")
    runs = mlflow_runs(tmp_path / "mlruns")
    assert {name: run.info.experiment_id for name, run in runs.items()} == {"one": made, "two": made}
    client(tmp_path / "mlruns").delete_experiment(made)
    message = refused(limelight.train, "majority", TINY, tmp_path / "three", log="mlflow")
    assert "the experiment majority was deleted in MLflow" in message


def test_an_experiment_that_was_renamed_keeps_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "mlruns"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(store))
    limelight.train("majority", TINY | {"train.epochs": 0.1}, tmp_path / "one", log="mlflow")
    client(store).rename_experiment(mlflow_runs(store)["one"].info.experiment_id, "old")
    limelight.train("majority", TINY | {"train.epochs": 0.1}, tmp_path / "two", log="mlflow")
    assert (list(mlflow_runs(store, "old")), list(mlflow_runs(store))) == (["one"], ["two"])
    assert {path.name for path in store.glob(".*")} == {".trash"}


class Notes(Watcher):
    def __init__(self) -> None:
        self.texts = list[str]()

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_training_goes_on_if_a_log_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "file" / "mlruns"))
    notes = Notes()
    run = limelight.train("majority", TINY, tmp_path / "run", log=tuple(LOGS), watcher=notes)
    assert run.report["steps"] == 15
    (text,) = [text for text in notes.texts if "log" in text]
    assert text.startswith("the log for MLflow ends here: ")
    assert "Not a directory" in text
    assert tensorboard_scalars(run.path)["report/test/loss"]


def test_an_unfinished_line_of_speeds_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        limelight.train("majority", TINY, tmp_path / "run", log="tensorboard", watcher=StopAt(9))
    with (tmp_path / "run" / SPEED).open("a") as file:
        file.write('{"step": 8, "ti\n{"step": 7, "time": 3, "speed": NaN}\n[]\n')
    limelight.train(tmp_path / "run", resume=True, log="tensorboard")
    scalars = tensorboard_scalars(tmp_path / "run")
    assert [step for step, _ in scalars["progress/tokens_per_second"]] == [7, 14, 15]


def test_an_unknown_log_is_refused_in_one_line(tmp_path: Path) -> None:
    done = command("train", "majority", "--log", "wandb", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr == "limelight: --log is 'wandb'; allowed: 'tensorboard', 'mlflow'\n"
    assert not (tmp_path / "run").exists()


WITHOUT = """
import sys
sys.modules["tensorboard"] = None
from limelight.__main__ import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("start", [["train"], ["sweep", "--seeds", "2"]], ids=lambda start: start[0])
def test_a_missing_package_is_reported_before_training(start: list[str], tmp_path: Path) -> None:
    done = python(WITHOUT, *start, "majority", "--log", "tensorboard", "--out", str(tmp_path / "run"))
    needed = (
        "tensorboard needs the package tensorboard; install it with: pip install 'limelight[tensorboard]'"
    )
    assert (done.returncode, done.stderr) == (2, f"limelight: {needed}\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("uri", ["https://me:secret@example.org", "sqlite:///mlflow.db", "databricks"])
def test_other_stores_of_mlflow_are_refused_without_showing_a_password(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    message = refused(limelight.train, "majority", out=tmp_path / "run", log="mlflow")
    assert message.startswith(f"MLFLOW_TRACKING_URI is '{uri.partition(':')[0]}")
    assert message.endswith("allowed: a folder, or the file: URI of one")
    assert "secret" not in message


def test_runs_are_not_put_beside_the_database_of_mlflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.chdir(tmp_path)
    Path("mlflow.db").write_text("")
    message = refused(limelight.train, "majority", TINY, log="mlflow")
    assert "MLflow uses mlflow.db here; set MLFLOW_TRACKING_URI to a folder" in message
    Path("mlflow.db").unlink()
    limelight.train("majority", TINY, log="mlflow")
    assert list(mlflow_runs(tmp_path / "mlruns")) == ["majority"]


def test_the_commands_that_show_the_logs_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    settings = [f"--set={key}={json.dumps(value)}" for key, value in TINY.items()]
    done = command("train", "majority", *settings, "--log", "tensorboard", "--log", "mlflow")
    assert done.returncode == 0, done.stderr
    assert str(Path("runs", "majority", "tensorboard")) in done.stdout
    assert done.stdout.endswith(
        "      tensorboard --logdir runs\n"
        "      MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri mlruns\n"
    )
    assert list(mlflow_runs(tmp_path / "mlruns")) == ["majority"]


def test_every_run_of_a_sweep_is_logged(store: Path, tmp_path: Path) -> None:
    settings = TINY | {"train.epochs": 0.1}
    found = limelight.sweep("majority", {"model.heads": [1, 2]}, tmp_path, settings=settings, log=tuple(LOGS))
    names = {run.name for run in found.runs}
    assert names <= mlflow_runs(store).keys()
    assert all(tensorboard_scalars(tmp_path / name)["validation/loss"] for name in names)
