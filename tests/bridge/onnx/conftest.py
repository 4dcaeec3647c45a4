"""Tiny trained runs with their exports."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from small_recipes import SMALL, small

import limelight
from limelight.experiment import Run
from limelight.experiment.exports import export

CHANGED: dict[str, dict[str, Any]] = {
    "reverse": {"model.depth": 2, "train.epochs": 4},
    "language": {"model.depth": 2, "task.data.context": 41, "task.data.vocabulary_size": 400},
}
# Generated sentences of subwords; those of `small` are letters.
TRANSLATE = SMALL | {
    "model.width": 16,
    "task.data.train": 300,
    "task.data.validation": 20,
    "task.data.test": 20,
    "task.vocabulary.size": 150,
    "train.epochs": 3,
}


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The tiny run of a recipe, trained and exported when it is first asked for, in a folder `runs`.

    All processes that run tests share them.
    """
    own, shared = tmp_path_factory.mktemp("exported"), tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    @cache
    def run(recipe: str) -> Run:
        place = shared / "runs" / recipe
        if not place.exists():
            settings, data = (TRANSLATE, None) if recipe == "translate" else small(recipe, own)
            settings = settings | CHANGED.get(recipe, {})
            made = limelight.train(recipe, settings, own / recipe / "run", data=data, device="cpu")
            export(made, "onnx")
            place.parent.mkdir(exist_ok=True)
            with suppress(OSError):  # another process was faster
                made.path.rename(place)
        return limelight.open_run(place, device="cpu")

    return run
