import contextlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command import command as run

import limelight
from limelight.__main__ import main
from limelight.check.kinds import KINDS
from limelight.cli import app
from limelight.experiment import recipes


def test_help_has_the_description_of_the_program() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "Build, check, train and see Transformers." in done.stdout


def test_version_prints_the_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code in (None, 0)
    assert capsys.readouterr().out.strip() == limelight.__version__


@pytest.mark.parametrize("wrong", ["dance", "--dance", "[red]dance[/red]", "dance" * 50])
def test_an_unknown_command_prints_one_line_and_exits_with_code_2(wrong: str) -> None:
    done = run(wrong)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("limelight: ")
    assert wrong in done.stderr
    assert done.stderr.count("\n") == 1


def test_public_modules_are_available_after_import_limelight() -> None:
    program = "import limelight; print(limelight.nn.dot, limelight.view.capture, limelight.bridge.to_torch)"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'attic'"):
        _ = limelight.attic  # type: ignore[attr-defined]


COMMANDS = ("recipes", "train", "sweep", "compare", "evaluate", "predict", "see", "serve", "explain")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"Example: limelight {command}" in capsys.readouterr().out
    assert command in app


def test_the_help_of_check_lists_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    words = capsys.readouterr().out.replace(",", " ").replace(".", " ").split()
    assert set(KINDS) <= set(words)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "majority"
    sizes = [f"task.data.{split}=300" for split in ("train", "validation", "test")]
    done = run("train", "majority", *settings(*sizes, "train.epochs=2"), "--out", str(path))
    assert done.returncode == 0, done.stderr
    assert "majority: done" in done.stdout
    assert "test accuracy" in done.stdout
    assert f"limelight predict {path} '" in done.stdout
    assert "step 6 of 6" in done.stderr
    return path


def settings(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--set", text)]


def test_the_command_recipes_lists_every_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    run_main(["recipes"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(recipes())
    assert "reverse" in recipes()


def run_main(arguments: list[str]) -> None:
    """Run a command; cyclopts ends it with SystemExit or returns."""
    with contextlib.suppress(SystemExit):
        main(arguments)


def test_predict_gives_the_same_answers_for_arguments_files_and_stdin(trained: Path, tmp_path: Path) -> None:
    lines = ["a b a a c", "ddddd", "c c b c a"]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    by_arguments = run("predict", str(trained), *lines)
    by_file = run("predict", str(trained), str(tmp_path / "lines.txt"))
    by_filter = run("predict", str(trained), stdin="\n".join(lines))
    assert by_arguments.returncode == 0, by_arguments.stderr
    assert by_arguments.stdout == by_file.stdout == by_filter.stdout
    assert len(by_filter.stdout.splitlines()) == 3
    as_json = json.loads(run("predict", str(trained), *lines, "--json").stdout)
    by_line = run("predict", str(trained), *lines, "--jsonl").stdout.splitlines()
    assert [json.loads(line) for line in by_line] == as_json
    assert [entry["input"] for entry in as_json] == lines
    assert [entry["answer"] for entry in as_json] == by_filter.stdout.splitlines()


def test_evaluate_prints_the_metrics_of_the_report(trained: Path) -> None:
    printed = json.loads(run("evaluate", str(trained), "--split", "validation", "--json").stdout)
    report = json.loads((trained / "report.json").read_text())
    metrics = {name: value for name, value in printed.items() if name not in ("classes", "confusion")}
    assert metrics == {"split": "validation", **report["metrics"]["validation"]}
    plain = run("evaluate", str(trained)).stdout.splitlines()
    assert [line.split()[:2] for line in plain[:2]] == [["test", "loss"], ["test", "accuracy"]]
    printed = json.loads(run("evaluate", str(trained), "--json").stdout)
    assert printed["classes"] == report["classes"]
    assert printed["confusion"] == report["confusion"]
    assert sum(map(sum, printed["confusion"])) == 300


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "revers"], "did you mean 'reverse'?"),
        (["train", "reverse", "--set", "model.heds=2"], "did you mean 'model.heads'?"),
        (
            ["train", "reverse", "--set", "train.epochs=0"],
            "train.epochs is 0; allowed: greater than 0",
        ),
        (["train", "reverse", "--set", "nonsense"], "allowed: KEY=VALUE"),
        (["train", "reverse", "--data", "my.csv"], "omit --data"),
        (["train", "reverse", "--device", "tpu"], "device 'tpu' is unknown"),
        (["train", "nowhere/my.toml"], "nowhere/my.toml: No such file or directory"),
        (["evaluate", "nowhere"], "nowhere is not a run folder"),
        (["predict", "nowhere", "1 2 3"], "nowhere is not a run folder"),
        (["explain", "revers"], "did you mean 'reverse'?"),
        (["train"], "RECIPE is missing (see limelight train --help)"),
        (["train", "reverse", "heads=2"], "unexpected argument: heads=2; a setting? write --set before it"),
        (["train", "reverse", "--set", "model.heads=3"], "limelight: model.heads is 3; allowed: a divisor"),
        (["train", "reverse", "more"], "unexpected argument: more (see limelight train --help)"),
        (["train", "reverse", "--resum"], "Did you mean --resume? (see limelight train --help)"),
    ],
)
def test_invalid_input_prints_one_line_and_creates_no_files(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("limelight: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_invalid_lines_and_bytes_are_refused_in_one_line(trained: Path) -> None:
    done = run("predict", str(trained), stdin="aabab\na x\nddddd\n")
    assert done.returncode == 2
    assert done.stdout.splitlines()[1:] == ["error: input 2: symbol is 'x'; allowed: a b c d", "d"]
    assert done.stderr == "limelight: 1 of 3 inputs have no answer, but an error\n"
    alone = run("predict", str(trained), "a x")
    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr == "limelight: input 1: symbol is 'x'; allowed: a b c d\n"
    program = [sys.executable, "-m", "limelight", "predict", str(trained)]
    broken = subprocess.run(program, input=b"\xff\xfe\n", capture_output=True)
    assert broken.returncode == 2
    assert broken.stderr.decode().count("\n") == 1


def test_a_diverging_loss_prints_one_line_and_exits_with_code_1(tmp_path: Path) -> None:
    diverging = settings("train.rate=1e30", "train.clip=0", "train.warmup=0", "train.evaluate_every=1 step")
    done = run("train", "reverse", *diverging, "--out", str(tmp_path / "run"))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("limelight: step ")
    assert "Traceback" not in done.stderr


def test_the_next_command_is_quoted_for_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "x [/a] $(touch gone) b"
    sizes = [f"task.data.{split}=60" for split in ("train", "validation", "test")]
    done = run("train", "majority", *settings(*sizes, "train.epochs=1"), "--out", str(path))
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("next: "))
    _, program, command, folder, sample = shlex.split(line)
    assert (program, command, folder) == ("limelight", "predict", str(path))
    answered = run(command, folder, sample)
    assert answered.returncode == 0, answered.stderr
    assert answered.stdout.strip() in "abcd"


def test_arguments_are_predicted_if_stdin_is_closed(trained: Path) -> None:
    command = f"{sys.executable} -m limelight predict {trained} 'a b a b a' <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_output_pipe_is_not_an_error(trained: Path) -> None:
    command = f"yes 'a b a' | head -5000 | {sys.executable} -m limelight predict {trained} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_terminal_without_unicode_is_not_an_error(trained: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "limelight", "explain", str(trained)]
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_importing_the_command_line_does_not_import_torch() -> None:
    program = "import sys, limelight.cli; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
