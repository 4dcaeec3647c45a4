"""Some of the examples, chosen at random; notes on the classes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from support import must_fail

from limelight.data.dataset import Dataset
from limelight.data.splits import choose, count_classes
from limelight.experiment.config import experiment

LABELS = ["common"] * 97 + ["rare"] * 3


def test_a_limit_chooses_random_examples_and_one_of_each_label() -> None:
    for seed in range(7):
        chosen = choose(LABELS, 11, seed)
        assert chosen == sorted(set(chosen))
        assert len(chosen) == 11
        assert {LABELS[i] for i in chosen} == {"common", "rare"}
    assert choose(LABELS, 11, 1) == choose(LABELS, 11, 1) != choose(LABELS, 11, 2)
    assert choose(LABELS, 0, 1) == choose(LABELS, 100, 1) == list(range(100))


def check_warned(counts: tuple[int, int]) -> None:
    labels = [0] * counts[0] + [1] * counts[1]
    notes = count_classes(["cat", "dog"], labels)
    assert notes[0] == f"2 classes in training: cat {counts[0]}, dog {counts[1]}"
    assert notes[-1].startswith("warning: the classes are unbalanced: cat has")


def test_very_unequal_classes_give_a_warning() -> None:
    check_warned((101, 5))
    must_fail(check_warned, (99, 5))


def load(recipe: str, settings: dict[str, Any], data: Path | None = None) -> Dataset[Any]:
    wanted = experiment(recipe, {"task.data.limit": 29, **settings}, data)
    return wanted.task.load(1)[1]


def sizes(dataset: Dataset[Any]) -> dict[str, int]:
    return {name: len(split) for name, split in dataset.splits.items()}


@pytest.mark.parametrize("recipe", ["reverse", "brackets", "odd-one-out", "translate"])
def test_a_limit_applies_to_generated_data(recipe: str) -> None:
    assert sizes(load(recipe, {})) == {"train": 29, "validation": 29, "test": 29}


def test_a_limit_applies_to_the_digits() -> None:
    assert sum(sizes(load("digits", {})).values()) == 29


def test_a_limit_applies_to_tables_and_sentence_pairs(tmp_path: Path) -> None:
    rows = [f"text number {i},{'ab'[i % 2]}" for i in range(101)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    assert sum(sizes(load("text", {}, tmp_path / "texts.csv")).values()) == 29
    (tmp_path / "pairs.txt").write_text("".join(f"hello {i}\tbonjour {i}\n" for i in range(101)))
    small = {"task.vocabulary.size": 40}
    assert sum(sizes(load("translate", small, tmp_path / "pairs.txt")).values()) == 29


def test_a_limit_decodes_only_the_chosen_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMELIGHT_CACHE", str(tmp_path / "cache"))
    for label in "ab":
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(31):
            Image.new("L", (8, 8), i).save(tmp_path / "photos" / label / f"{i}.png")
    dataset = load("images", {"task.data.size": 8}, tmp_path / "photos")
    assert sum(sizes(dataset).values()) == 29
    (cached,) = (tmp_path / "cache").glob("*.pixels")
    assert cached.stat().st_size == 29 * 3 * 8 * 8
    assert len(torch.unique(dataset.splits["train"].labels)) == 2
