"""Fixtures of the tests of runs and explanations."""

from pathlib import Path

import pytest
from tiny import GENERATED, SETTINGS

import limelight


@pytest.fixture
def book(tmp_path: Path) -> str:
    """The path of a file with sentence pairs of 2 to 30 words."""
    path = tmp_path / "book.tsv"
    rows = [" ".join(f"{mark}{i % 7}" for i in range(n, 2 * n)) for n in range(2, 31) for mark in "ab"]
    path.write_text(
        "".join(f"{first}\t{second}\n" for first, second in zip(rows[::2], rows[1::2], strict=True))
    )
    return str(path)


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished sweep of four tiny runs: one or two heads, seeds 1 and 2."""
    folder = tmp_path_factory.mktemp("sweeps") / "heads"
    settings = SETTINGS | GENERATED | {"task.data.longest": 11, "train.epochs": 1}
    limelight.sweep("majority", {"model.heads": [1, 2]}, folder, settings=settings, seeds=2)
    return folder
