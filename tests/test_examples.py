import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_causal_attention_draws_its_heads(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "causal_attention.py")]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "weight on words that come later: 0\n" in done.stdout
    drawn = tmp_path / "runs" / "demo" / "causal_attention.png"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert drawn.stat().st_size > 10_000
