"""metrics.jsonl of earlier versions."""

import json
from pathlib import Path

import pytest

from limelight.errors import WrongInput
from limelight.training.journal import read_journal


def test_the_mean_absolute_error_was_called_error(tmp_path: Path) -> None:
    metrics = {"loss": 0.5, "error": 2.0}
    line = {"step": 7, "epoch": 1.0, "train": metrics, "validation": metrics}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    (read,) = read_journal(tmp_path / "metrics.jsonl", ("loss", "mae"))
    assert read["validation"] == {"loss": 0.5, "mae": 2.0}
    (own,) = read_journal(tmp_path / "metrics.jsonl", ("loss", "error"))  # the metric of a plug-in
    assert own["train"] == metrics
    with pytest.raises(WrongInput, match="is damaged"):
        read_journal(tmp_path / "metrics.jsonl", ("loss", "accuracy"))
