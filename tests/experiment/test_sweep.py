"""`limelight sweep`: a grid of settings, trained one run after the other; killed anywhere, it goes on."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import command
from support import must_fail, not_none
from tiny import GENERATED, SETTINGS, StopAt

import limelight
from limelight.errors import WrongInput
from limelight.experiment.grid import Sweep, grid_setting, read_sweep, short_names
from limelight.training.interrupt import Interrupted
from limelight.training.progress import Watcher

TINY = SETTINGS | GENERATED | {"task.data.longest": 11, "train.epochs": 1}
OPTIONS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
NAMES = ["heads=1,seed=1", "heads=1,seed=2", "heads=2,seed=1", "heads=2,seed=2"]
KILLS = Path(__file__).parent / "sweep_kills.py"


class Notes(Watcher):
    """Collects the notes of all runs."""

    def __init__(self) -> None:
        self.texts = list[str]()

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("model.heads=1,2,4", [1, 2, 4]),
        ("model.heads=2", [2]),
        ("train.rate=1e-3, 3e-3", [1e-3, 3e-3]),
        ("model.norm=pre,post", ["pre", "post"]),
        ('train.freeze=["encoder", "head"]', [["encoder", "head"]]),
        ('train.freeze=[],["encoder", "head"]', [[], ["encoder", "head"]]),
        ("train.rates={ encoder = 0.5, head = 1 },{}", [{"encoder": 0.5, "head": 1}, {}]),
        ('task.data.path="a, b.csv"', ["a, b.csv"]),
        (r'task.data.path="a\",b",c', ['a",b', "c"]),
        ("task.data.path='it, \"',x", ['it, "', "x"]),
        ("train.perfect=true,false", [True, False]),
    ],
)
def test_commas_outside_of_brackets_and_quotation_marks_separate_values(text: str, values: list[Any]) -> None:
    assert grid_setting(text) == (text.partition("=")[0], values)


@pytest.mark.parametrize("text", ["model.heads=1,,2", "model.heads=1,", "model.heads", "=1,2"])
def test_a_grid_without_a_value_or_a_key_is_refused(text: str) -> None:
    with pytest.raises(WrongInput, match="--set is '"):
        grid_setting(text)


def test_keys_are_shortened_as_far_as_they_stay_different() -> None:
    keys = ["model.heads", "model.depth", "task.data.depth", "seed"]
    assert list(short_names(keys).values()) == ["heads", "model.depth", "data.depth", "seed"]


def test_names_of_runs_are_short_unique_and_safe_for_files() -> None:
    paths = ["/tmp/some/where/a.csv", "../b c:d.csv"]
    found = list(Sweep(recipe={}, grid={"task.data.path": paths, "train.rate": [1e-5, 0.1]}).runs)
    assert found[0] == "path=tmp-some-where-a.csv,rate=1e-05"
    assert found[3] == "path=b-c-d.csv,rate=0.1"
    similar = list(Sweep(recipe={}, grid={"model.kind": ["a/b", "a:b", "A b"]}).runs)
    assert similar == ["1,kind=a-b", "2,kind=a-b", "3,kind=A-b"]
    many = {f"model.setting_number_{i}": [1, 2] for i in range(8)}
    assert max(map(len, Sweep(recipe={}, grid=many).runs)) < 150


def test_a_sweep_trains_every_combination_with_every_seed(swept: Path) -> None:
    assert sorted(path.name for path in swept.iterdir() if path.is_dir()) == NAMES
    for name in NAMES:
        opened = limelight.open_run(swept / name)
        assert f"heads={opened.experiment.model.heads},seed={opened.experiment.seed}" == name  # type: ignore[attr-defined]
        assert opened.report["steps"] == 15
    assert not_none(read_sweep(swept)).finished == NAMES
    assert (swept / "comparison.html").is_file()


def test_each_run_of_a_sweep_is_the_run_that_train_gives(swept: Path, tmp_path: Path) -> None:
    alone = limelight.train("majority", TINY | {"model.heads": 2, "seed": 2}, tmp_path / "alone")
    assert weights(alone.path) == weights(swept / "heads=2,seed=2")
    must_fail(check_equal, weights(alone.path), weights(swept / "heads=2,seed=1"))


def check_equal(first: object, second: object) -> None:
    assert first == second


def weights(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.rglob("weights.safetensors")}


def test_a_finished_sweep_is_not_trained_again(swept: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in swept.glob("*/report.json")}
    notes = Notes()
    found = limelight.sweep(swept, resume=True, make_watcher=lambda: notes)
    assert [run.name for run in found.runs] == NAMES
    assert {path: path.stat().st_mtime_ns for path in swept.glob("*/report.json")} == before
    assert notes.texts[0] == "run 1 of 4, heads=1,seed=1: finished"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "model.heads=1,2", "--seeds", "2"], "already contains a sweep: resume it with `"),
        (["--set", "model.heads=1,2,4", "--seeds", "2", "--resume"], "contains a sweep with other settings"),
        (["--set", "model.heads=1,2", "--resume"], "contains a sweep with other settings"),
    ],
)
def test_another_sweep_in_the_same_folder_is_refused(arguments: list[str], message: str, swept: Path) -> None:
    done = command("sweep", "majority", *OPTIONS, *arguments, "--out", str(swept))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "model.heads=1,3"], "heads"),  # width 8
        (["--set", "model.heads=1,2", "--set", "model.hedas=1,2"], "did you mean 'model.heads'?"),
        (["--set", "train.rate=0.1,-1"], "train.rate is -1"),
        (["--set", "model.kind=classifier,abacus"], "model.kind is 'abacus'"),
        (["--set", "seed=1,2", "--seeds", "2"], "omit --seeds"),
        (["--set", "model.heads=2"], "a sweep needs several runs"),
        (["--set", "model.heads=2,2"], "model.heads has the value 2 more than once"),
        (["--seeds", "0"], "--seeds"),
        (["--seeds", "2", "--device", "abacus"], "abacus"),
        (["--seeds", "2", "--data", "x.csv"], "omit --data"),
    ],
)
def test_invalid_settings_of_any_run_are_refused_before_the_first_is_trained(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = command("sweep", "majority", *OPTIONS, *arguments, "--out", str(tmp_path / "sweep"))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "sweep").exists()


def test_a_model_that_does_not_fit_the_data_is_refused_before_the_first_run_is_trained(
    tmp_path: Path,
) -> None:
    done = command("sweep", "digits", "--set", "model.patch=2,3", "--out", str(tmp_path / "sweep"))
    assert done.returncode == 2
    assert "patch" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "sweep").exists()


def test_a_folder_with_other_files_is_refused_even_with_resume(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for options in ([], ["--resume"]):
        done = command("sweep", "majority", "--seeds", "2", "--out", str(tmp_path), *options)
        assert done.returncode == 2
        assert f"{tmp_path} is not empty and contains no sweep" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_run_whose_loss_is_not_finite_does_not_end_the_sweep(tmp_path: Path) -> None:
    options = [*OPTIONS, "--set", "train.rate=1e-3,1e30", "--set", "train.clip=0"]
    done = command("sweep", "majority", *options, "--out", str(tmp_path / "sweep"))
    assert done.returncode == 1
    assert "run 2 of 2, rate=1e+30 stopped: step" in done.stderr
    assert done.stderr.endswith("limelight: 1 of 2 runs did not finish: rate=1e+30\n")
    assert "note: not finished: rate=1e+30" in done.stdout


def test_a_signal_stops_the_sweep_after_a_step_and_it_can_be_resumed(swept: Path, tmp_path: Path) -> None:
    watchers: list[Watcher] = [StopAt(7), Watcher()]
    with pytest.raises(Interrupted, match=r"run 1 of 4, heads=1,seed=1; resume with: .* sweep .* --resume"):
        limelight.sweep(
            "majority",
            {"model.heads": [1, 2]},
            tmp_path / "sweep",
            settings=TINY,
            seeds=2,
            make_watcher=lambda: watchers[0] if (tmp_path / "sweep" / "sweep.json").exists() else watchers[1],
        )
    assert not (tmp_path / "sweep" / "comparison.html").exists()
    limelight.sweep(tmp_path / "sweep", resume=True)
    for name in NAMES:
        assert weights(tmp_path / "sweep" / name) == weights(swept / name)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_command_with_its_code_and_one_line(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    arguments = ["majority", "--set", "model.heads=1,2", "--out", str(tmp_path / "sweep")]
    program = [sys.executable, "-m", "limelight", "sweep", *arguments]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        errors = not_none(process.stderr)
        while not errors.readline().startswith("step 0 of"):
            pass
        process.send_signal(number)
        rest = errors.read()
    assert process.returncode == code
    assert rest.splitlines()[-1].startswith("limelight: stopped in run 1 of 2, heads=1; resume with: ")
    assert "Traceback" not in rest


def killed(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(KILLS), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_sweep_killed_three_times_at_random_moments_ends_equal_to_an_undisturbed_one() -> None:
    """R9: a part of the torture test."""
    found = killed("moments", "1")
    assert found["kills"] == 3
    assert found["same"]


def test_kills_are_noticed_if_a_resumed_run_loses_the_state_of_its_optimiser() -> None:
    """The negative control of the test above, at fixed file operations inside of training."""
    found = killed("operations", "60", "150", "150", "broken")
    assert found["kills"] == 3
    assert not found["same"]


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 22))
def test_sixty_more_kills_of_sweeps_change_nothing(seed: int) -> None:
    assert killed("moments", str(seed))["same"]
