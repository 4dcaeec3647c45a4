import subprocess
import sys
from pathlib import Path

import pytest
from command import command

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_example_causal_attention_writes_a_figure(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "causal_attention.py")]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "total weight on later words: 0\n" in done.stdout
    drawn = tmp_path / "runs" / "demo" / "causal_attention.png"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert drawn.stat().st_size > 10_000


CHECKED = sorted((EXAMPLES / "check").glob("*.py"))


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.stem)
def test_the_report_beside_a_submission_is_the_output_of_check(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    done = command("check", path.name)
    assert done.stdout.rstrip() == path.with_suffix(".txt").read_text().rstrip()
    assert done.returncode == (0 if "0 with broken promises" in done.stdout else 1)


def test_there_are_three_example_submissions() -> None:
    assert len(CHECKED) == 3
