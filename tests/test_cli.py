import subprocess
import sys

import pytest

import limelight
from limelight.cli import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from limelight.cli import main; main(sys.argv[1:])"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)


def test_help_says_what_it_is() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "Build, check, train and see Transformers." in done.stdout


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code in (None, 0)
    assert capsys.readouterr().out.strip() == limelight.__version__


@pytest.mark.parametrize("wrong", ["dance", "--dance", "[red]dance[/red]", "dance" * 50])
def test_wrong_input_gets_one_line_and_exit_code_2(wrong: str) -> None:
    done = run(wrong)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("limelight: ")
    assert wrong in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_parts_are_there_after_importing_the_package_alone() -> None:
    program = "import limelight; print(limelight.nn.dot, limelight.view.watch, limelight.bridge.to_torch)"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'attic'"):
        _ = limelight.attic


def test_help_does_not_wait_for_torch() -> None:
    program = "import sys, limelight.cli; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
