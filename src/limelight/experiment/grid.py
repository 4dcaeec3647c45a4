"""A grid of settings: every combination of some values, each with one or several seeds."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field

from limelight.config import Config, read_json
from limelight.errors import WrongInput, wrong
from limelight.experiment.config import setting
from limelight.training import files

SWEEP, RECIPE = "sweep.json", "recipe.toml"
UNSAFE = re.compile(r"[^\w.+-]+")  # characters of values that a name of a folder does not contain
LONGEST_VALUE, LONGEST_NAME = 24, 120  # characters
OPENING, CLOSING, QUOTES = "[{", "]}", "\"'"


class Sweep(Config):
    """The content of `sweep.json`: which runs a sweep trains, and which of them are finished."""

    recipe: dict[str, Any] = Field(description="the recipe, with the settings that all runs have")
    grid: dict[str, list[Any]] = Field(description="the values of each setting that differs")
    seeds: int = Field(1, description="number of seeds of each combination, from that of the recipe on")
    finished: list[str] = Field([], description="names of the finished runs")

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """The settings of each run, by its name; the seeds of a combination follow each other."""
        grid = dict(self.grid)
        if self.seeds > 1:
            first = self.recipe.get("seed", 1)
            grid["seed"] = list(range(first, first + self.seeds))
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return dict(zip(_folder_names(points), points, strict=True))

    def is_like(self, other: "Sweep") -> bool:
        """Whether both train the same runs."""
        return (self.recipe, self.grid, self.seeds) == (other.recipe, other.grid, other.seeds)

    def write(self, folder: Path) -> None:
        """Write `sweep.json` atomically."""
        files.replace(folder / SWEEP, self.model_dump_json(indent=1).encode() + b"\n")

    def write_recipe(self, folder: Path) -> Path:
        """Write the recipe as the TOML file that each run is trained from; returns its path."""
        files.replace(folder / RECIPE, tomli_w.dumps(self.recipe).encode())
        return folder / RECIPE


def read_sweep(folder: Path) -> Sweep | None:
    """The sweep of a folder; None if the folder has none."""
    path = folder / SWEEP
    if not path.is_file():
        return None
    return read_json(Sweep, path.read_bytes().decode(errors="replace"), f"{path} is damaged")


def check_grid(grid: Mapping[str, Sequence[Any]], seeds: int) -> None:
    """Refuse a grid without different runs."""
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise wrong(f"the grid of {key}", repr(values), "a list of values, as in [1, 2, 4]")
        shown = Counter(map(json.dumps, values))
        if len(shown) < len(values):
            raise WrongInput(f"{key} has the value {shown.most_common(1)[0][0]} more than once")
    if seeds < 1:
        raise wrong("the number of seeds", seeds, "1 or more")
    if seeds > 1 and "seed" in grid:
        raise WrongInput("the grid has its own values of seed; omit --seeds")
    if seeds == 1 and all(len(values) < 2 for values in grid.values()):
        raise WrongInput(
            "a sweep needs several runs: several values, as in --set model.heads=1,2,4, or --seeds 3"
        )


def grid_setting(text: str) -> tuple[str, list[Any]]:
    """`a.b=1,2` -> ("a.b", [1, 2]); commas in brackets or quotation marks do not separate values.

    Each value is parsed as TOML; a word without quotes is a string.
    """
    key, _, value = text.partition("=")
    values = list(_split(value))
    if len(values) > 1 and not all(values):
        raise wrong("--set", repr(text), "a value on each side of every comma, as in model.heads=1,2,4")
    parsed = [setting(f"{key}={one}" if "=" in text else text) for one in values]
    return parsed[0][0], [one for _, one in parsed]


def _split(text: str) -> Iterator[str]:
    """The parts of a text between the commas that are outside of brackets and quotation marks."""
    start, depth, quote = 0, 0, ""
    for place, letter in enumerate(text):
        if quote:
            is_escaped = quote == '"' and (place - len(text[:place].rstrip("\\"))) % 2
            quote = "" if letter == quote and not is_escaped else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in OPENING + CLOSING:
            depth += 1 if letter in OPENING else -1
        elif letter == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def short_names(keys: Collection[str]) -> dict[str, str]:
    """Keys of settings without the first parts, where the rest is unique: model.heads -> heads"""
    names = dict[str, str]()
    for key in keys:
        parts = key.split(".")
        ends = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        names[key] = next(
            end for end in ends if sum(f".{other}".endswith(f".{end}") for other in keys) == 1 or end == key
        )
    return names


def value_text(value: object) -> str:
    """The value of a setting as short text."""
    if value is None:
        return "–"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _folder_names(points: Sequence[dict[str, Any]]) -> list[str]:
    """A unique name for the folder of each run, such as "heads=2,seed=1"."""
    short = short_names(points[0])
    names = [",".join(f"{short[key]}={_safe(value)}" for key, value in point.items()) for point in points]
    lowered = {name.lower() for name in names}  # some systems do not distinguish upper and lower case
    if len(lowered) == len(names) and max(map(len, names)) <= LONGEST_NAME:
        return names
    return [f"{number},{name[:LONGEST_NAME]}" for number, name in enumerate(names, 1)]


def _safe(value: object) -> str:
    return UNSAFE.sub("-", value_text(value))[:LONGEST_VALUE].strip("-.") or "value"
