import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_causal_attention_draws_its_heads(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "causal_attention.py")]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "total weight on later words: 0\n" in done.stdout
    drawn = tmp_path / "runs" / "demo" / "causal_attention.png"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert drawn.stat().st_size > 10_000


CHECKED = sorted((EXAMPLES / "check").glob("*.py"))


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.stem)
def test_a_report_beside_a_submission_is_what_check_says_of_it(path: Path) -> None:
    program = [sys.executable, "-m", "limelight", "check", path.name]
    done = subprocess.run(program, cwd=path.parent, capture_output=True, text=True)
    assert done.stdout.rstrip() == path.with_suffix(".txt").read_text().rstrip()
    assert done.returncode == (0 if "0 broken" in done.stdout else 1)


def test_there_are_three_submissions() -> None:
    assert len(CHECKED) == 3
