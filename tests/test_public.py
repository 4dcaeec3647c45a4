"""`import limelight`: fast, typed, and with a list of its public names."""

import subprocess
import sys
from pathlib import Path

import pytest

import limelight

MODULES = {"bridge", "check", "nn", "plugin", "view"}
FUNCTIONS = {"adaptive_spinning", "compare", "import_model", "open_run", "see", "sweep", "train"}


def test_dir_lists_the_public_names_and_each_exists() -> None:
    assert set(dir(limelight)) == MODULES | FUNCTIONS | {"__version__"}
    assert all(callable(getattr(limelight, name)) for name in FUNCTIONS)
    assert all(getattr(limelight, name).__name__ == f"limelight.{name}" for name in MODULES)
    with pytest.raises(AttributeError, match="trian"):
        _ = limelight.trian  # type: ignore[attr-defined]


def test_the_import_does_not_load_torch() -> None:
    code = (
        "import sys, limelight as l; assert 'torch' not in sys.modules; l.nn; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_type_checker_knows_the_public_names_and_refuses_others(tmp_path: Path) -> None:
    """With the settings and the cache of `make lint`, which are strict."""
    file = tmp_path / "uses.py"
    file.write_text(
        'import limelight\nlimelight.train("reverse")\nlimelight.nn.causal_mask(3)\nlimelight.trian\n'
    )
    command = [sys.executable, "-m", "mypy", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    assert 'uses.py:4: error: Module has no attribute "trian"' in checked.stdout
    assert "Found 1 error in 1 file" in checked.stdout
