"""A translation model and a language model that are trained in seconds."""

from itertools import product
from pathlib import Path

import pytest

import limelight
from limelight.experiment import Run

WORDS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six"}
TEXT = "".join(f"The number {i} is {'even' if i % 2 == 0 else 'odd'}.\n" for i in range(400))


@pytest.fixture(scope="package")
def translation(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Translates word by word, in the opposite order; not perfect, so that beams differ."""
    folder = tmp_path_factory.mktemp("translation")
    sentences = [words for length in (1, 2, 3, 4) for words in product(WORDS, repeat=length)]
    (folder / "pairs.tsv").write_text(
        "".join(f"{' '.join(one)}\t{' '.join(WORDS[w] for w in reversed(one))}\n" for one in sentences)
    )
    settings = {
        "task.vocabulary.size": 60,
        "task.data.validation": 0.1,
        "task.data.test": 0.05,
        "model.width": 24,
        "model.heads": 2,
        "model.hidden": 37,
        "train.batch": 32,
        "train.epochs": 6,
        "train.rate": 5e-3,
        "train.warmup": 10,
    }
    return limelight.train("translate", settings, out=folder / "run", data=folder / "pairs.tsv")


@pytest.fixture(scope="package")
def language(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Continues sentences about numbers."""
    folder = tmp_path_factory.mktemp("language")
    Path(folder / "text.txt").write_text(TEXT, "utf-8")
    settings = {
        "task.data.vocabulary": "characters",
        "task.data.context": 31,
        "model.width": 24,
        "model.depth": 2,
        "model.heads": 2,
        "model.hidden": 37,
        "train.epochs": 3,
        "train.batch": 16,
    }
    return limelight.train("language", settings, out=folder / "run", data=folder / "text.txt")
