"""Checkpoints: written as a whole or not at all, and read only if every byte is as it was written.

A checkpoint is a folder `step-00001230` of a few files and a `manifest.json`, which is written last and
knows size and SHA-256 of each; it is called `step-00001230-1` as long as an older one has its place. `newest`
and `best` are looked up, never stored.
"""

import hashlib
import json
import re
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.training import files

FORMAT = 1
MANIFEST = "manifest.json"
KEEP = 2  # of the newest, beside the best


@dataclass(frozen=True)
class Checkpoint:
    step: int
    facts: dict[str, Any]
    files: dict[str, bytes]


class Damaged(Exception):
    """A checkpoint that is not as it was written; its text says where."""


class _File(Config):
    size: int = Field(ge=0)
    sha256: str


class _Manifest(Config):
    # A metric may be infinite, and so may a score.
    model_config = ConfigDict(allow_inf_nan=True)

    format: int
    step: int = Field(ge=0)
    facts: dict[str, Any]
    files: dict[str, _File]

    @property
    def score(self) -> float:
        """The higher the better; of a checkpoint that was not evaluated, the lowest there is."""
        score = self.facts.get("score")
        return float(score) if isinstance(score, int | float) else -float("inf")


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """`facts["score"]` says how good it is; the higher the better, None if it was not judged."""
    manifest = {
        "format": FORMAT,
        "step": checkpoint.step,
        "facts": checkpoint.facts,
        "files": {
            name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in checkpoint.files.items()
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    # The step may be there already, not yet judged, or damaged: it stays until the new one is whole.
    name = f"step-{checkpoint.step:08d}"
    names = [name, *(f"{name}-{number}" for number in range(1, 10))]
    place = next(folder / free for free in names if not (folder / free).exists())
    files.commit(place, {**checkpoint.files, MANIFEST: _seal(manifest)})
    _prune(folder, place)
    if place.name != name:
        files.rename(place, folder / name)


def newest(folder: Path) -> Checkpoint | None:
    """The checkpoint of the highest step that is whole; a damaged one is named in a warning."""
    return next(newest_first(folder), None)


def best(folder: Path) -> Checkpoint | None:
    """The whole checkpoint with the highest score, the newest of equals; damaged ones are warned of."""
    return next(best_first(folder), None)


def newest_first(folder: Path) -> Iterator[Checkpoint]:
    """Every checkpoint that is whole, the highest step first."""
    return _whole(_steps(folder))


def best_first(folder: Path) -> Iterator[Checkpoint]:
    """Every checkpoint that is whole, the highest score first."""
    scores = {}
    for place in _steps(folder):
        try:
            scores[place] = _read_manifest(place).score
        except Damaged as damage:  # it may have been the best: nobody knows any more
            not_used(damage)
    return _whole(sorted(scores, key=lambda place: scores[place], reverse=True))


def not_used(damage: Exception) -> None:
    """Warn that a checkpoint is left out, and why."""
    warnings.warn(f"{damage}: this checkpoint is not used", stacklevel=2)


def read(place: Path) -> Checkpoint:
    """Read a checkpoint and compare every byte with its manifest."""
    manifest = _read_manifest(place)
    contents = {}
    for name, facts in manifest.files.items():
        try:
            about = (place / name).stat()
            whole = stat.S_ISREG(about.st_mode) and about.st_size == facts.size
            content = (place / name).read_bytes() if whole else b""
        except OSError as error:
            raise Damaged(f"{place / name}: {error.strerror}") from None
        if not whole or hashlib.sha256(content).hexdigest() != facts.sha256:
            raise Damaged(f"{place / name} is not as it was written")
        contents[name] = content
    return Checkpoint(manifest.step, manifest.facts, contents)


def _read_manifest(place: Path) -> _Manifest:
    path = place / MANIFEST
    try:
        content = path.read_bytes()
        sealed = json.loads(content)
        values = sealed["manifest"]
        if content != _seal(values):
            raise Damaged(f"{path} is not as it was written")
        if values["format"] != FORMAT:
            raise WrongInput(f"{path} has format {values['format']}; this version reads {FORMAT}")
        manifest = _Manifest.model_validate(values)
    except WrongInput:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path} cannot be read") from None
    names_are_plain = all(re.fullmatch(r"[\w-]+(\.\w+)?", name) for name in manifest.files)
    if _step(place) != f"step-{manifest.step:08d}" or not names_are_plain:
        raise Damaged(f"{path} belongs elsewhere")
    return manifest


def _seal(manifest: dict[str, Any]) -> bytes:
    """The manifest with its own checksum, always the same bytes for the same content."""
    text = json.dumps(manifest, sort_keys=True)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256": "{checksum}", "manifest": {text}}}\n'.encode()


def _steps(folder: Path) -> list[Path]:
    """Newest first."""
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if re.fullmatch(r"step-\d{8,}(-\d)?", p.name)), reverse=True)


def _step(place: Path) -> str:
    return "-".join(place.name.split("-")[:2])


def _whole(places: list[Path]) -> Iterator[Checkpoint]:
    for place in places:
        try:
            yield read(place)
        except Damaged as damage:
            not_used(damage)


def _score(place: Path) -> float:
    try:
        return _read_manifest(place).score
    except Damaged:
        return -float("inf")


def _prune(folder: Path, written: Path) -> None:
    """What is later than the one just written belongs to a future that was cut off; it is the only one of
    its step."""
    places = [written, *(place for place in _steps(folder) if place.name < _step(written))]
    kept = {*places[:KEEP], max(places, key=_score)}
    for place in _steps(folder):
        if place not in kept:
            files.remove(place)
