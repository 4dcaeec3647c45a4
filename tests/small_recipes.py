"""Every recipe with settings and data that train in a second."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from drawn import noise

from limelight.experiment.config import experiment

SMALL: dict[str, Any] = {
    "model.width": 8,
    "model.heads": 2,
    "model.hidden": 13,
    "train.batch": 20,
    "train.epochs": 1,
}
GENERATED: dict[str, Any] = {"task.data.train": 60, "task.data.validation": 20, "task.data.test": 20}
OWN: dict[str, dict[str, Any]] = {
    "digits": {"train.epochs": 0.05},
    "language": {"task.data.limit": 40, "task.data.context": 11},
}
OF_PAIRS: dict[str, Any] = {
    "task.vocabulary.kind": "words",
    "task.vocabulary.rarest": 1,
    "task.vocabulary.split": 0.0,
    "task.data.validation": 0.125,
    "task.data.test": 0.125,
    "train.batch": 16,
}
OF_LINES = {"task.data.vocabulary": "words", "task.data.context": 11}
TABLE = "text,label\n" + "".join(
    f"{'good' if i % 2 else 'bad'} film number {i % 7},{i % 2}\n" for i in range(80)
)
# All of one length: each new length is compiled again with --compile.
PAIRS = "".join(f"{' '.join(words)}\t{' '.join(words[::-1])}\n" for words in product("abcd", repeat=3))


def small(recipe: str, folder: Path) -> tuple[dict[str, Any], Path | None]:
    """The settings of a recipe, and the path of its data if it needs any, which is written to the folder."""
    fields = type(experiment(recipe).model).model_fields
    depths = {f"model.{name}": 1 for name in ("depth", "encoder_depth", "decoder_depth") if name in fields}
    of_model = {key: value for key, value in SMALL.items() if key.split(".")[1] in fields or "train" in key}
    if recipe not in FILES:
        return of_model | depths | OWN.get(recipe, GENERATED), None
    name, write, own = FILES[recipe]
    write(folder / name)
    return of_model | depths | own, folder / name


def write_texts(path: Path, words: str) -> Path:
    """A table of texts of these words; the first word of a text decides its label."""
    known = words.split()
    rows = [f"{known[i % 2]} {known[i % len(known)]} number {i % 7},{i % 2}" for i in range(60)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


def _write_table(path: Path) -> None:
    path.write_text(TABLE)


def _write_lines(path: Path) -> None:
    path.write_text("".join(f"{line.split(',')[0]}\n" for line in TABLE.splitlines()))


def _write_pairs(path: Path) -> None:
    path.write_text(PAIRS)


def _write_folder_of_pairs(path: Path) -> None:
    path.mkdir()
    for column, language in enumerate(("en", "de")):
        lines = [line.split("\t")[column] for line in PAIRS.splitlines()]
        (path / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))


def _write_images(path: Path) -> None:
    for number in range(80):
        image = path / "ab"[number % 2] / f"{number}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        noise(8, 8, seed=number).save(image)


def _write_cifar10(path: Path) -> None:
    random = np.random.default_rng(19)
    images = {name: random.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8) for name in ("train", "test")}
    labels = {f"y_{name}": np.arange(60, dtype=np.uint8) % 10 for name in images}
    np.savez(path, allow_pickle=False, **{f"x_{name}": array for name, array in images.items()}, **labels)


FILES: dict[str, tuple[str, Callable[[Path], None], dict[str, Any]]] = {
    "text": ("films.csv", _write_table, {}),
    "masked": ("lines.txt", _write_lines, OF_LINES),
    "translate": ("pairs.tsv", _write_pairs, OF_PAIRS),
    "translate-rnn": ("pairs.tsv", _write_pairs, OF_PAIRS),
    "multi30k": ("multi30k", _write_folder_of_pairs, OF_PAIRS),
    "images": ("images", _write_images, {}),
    "cifar10": ("cifar10.npz", _write_cifar10, {}),
}
