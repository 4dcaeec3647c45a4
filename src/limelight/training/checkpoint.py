"""Checkpoints: written atomically, and read only if every checksum is correct.

A checkpoint is a folder `step-00001230` with a few files and a `manifest.json`, which is written last and
contains the size and SHA-256 of each file. While an older checkpoint of the same step exists, the new one is
called `step-00001230-1`. The newest and the best checkpoint are searched for, never stored under a name.
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
KEEP = 2  # the newest checkpoints that are kept, in addition to the best


@dataclass(frozen=True)
class Checkpoint:
    """The content of one checkpoint: JSON values (`facts`), and files by name."""

    step: int
    facts: dict[str, Any]
    files: dict[str, bytes]


class Damaged(Exception):
    """A checkpoint that is incomplete or was changed; the message names the file."""


class _File(Config):
    size: int = Field(ge=0)
    sha256: str


class _Manifest(Config):
    model_config = ConfigDict(allow_inf_nan=True)  # a metric may be infinite

    format: int
    step: int = Field(ge=0)
    facts: dict[str, Any]
    files: dict[str, _File]

    @property
    def score(self) -> float:
        """Higher is better; negative infinity if the checkpoint was not evaluated."""
        score = self.facts.get("score")
        return float(score) if isinstance(score, int | float) else -float("inf")


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically, then remove those that are no longer needed.

    `facts["score"]` decides which checkpoint is the best: higher is better, None if it was not evaluated.
    """
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
    # A checkpoint of this step may exist (not evaluated, or damaged): it stays until the new one is complete.
    name = f"step-{checkpoint.step:08d}"
    names = [name, *(f"{name}-{number}" for number in range(1, 10))]
    place = next(folder / free for free in names if not (folder / free).exists())
    files.commit(place, {**checkpoint.files, MANIFEST: _seal(manifest)})
    _prune(folder, place)
    if place.name != name:
        files.rename(place, folder / name)


def newest(folder: Path) -> Checkpoint | None:
    """The intact checkpoint of the highest step; a warning names each damaged one."""
    return next(newest_first(folder), None)


def best(folder: Path) -> Checkpoint | None:
    """The intact checkpoint with the highest score, the newest of equals; a warning names damaged ones."""
    return next(best_first(folder), None)


def newest_first(folder: Path) -> Iterator[Checkpoint]:
    """All intact checkpoints, the highest step first."""
    return _intact(_steps(folder))


def best_first(folder: Path) -> Iterator[Checkpoint]:
    """All intact checkpoints, the highest score first."""
    scores = {}
    for place in _steps(folder):
        try:
            scores[place] = _read_manifest(place).score
        except Damaged as damage:  # it may have been the best, so the user should know
            not_used(damage)
    return _intact(sorted(scores, key=lambda place: scores[place], reverse=True))


def not_used(damage: Exception) -> None:
    """Warn that a checkpoint is skipped, and why."""
    warnings.warn(f"{damage}: this checkpoint is not used", stacklevel=2)


def read(place: Path) -> Checkpoint:
    """Read a checkpoint and verify every file; raise `Damaged` if one differs from the manifest."""
    manifest = _read_manifest(place)
    contents = {}
    for name, facts in manifest.files.items():
        try:
            about = (place / name).stat()
            intact = stat.S_ISREG(about.st_mode) and about.st_size == facts.size
            content = (place / name).read_bytes() if intact else b""
        except OSError as error:
            raise Damaged(f"{place / name}: {error.strerror}") from None
        if not intact or hashlib.sha256(content).hexdigest() != facts.sha256:
            raise Damaged(f"{place / name} is damaged: its size or checksum is wrong")
        contents[name] = content
    return Checkpoint(manifest.step, manifest.facts, contents)


def _read_manifest(place: Path) -> _Manifest:
    path = place / MANIFEST
    try:
        content = path.read_bytes()
        sealed = json.loads(content)
        values = sealed["manifest"]
        if content != _seal(values):
            raise Damaged(f"{path} is damaged: its checksum is wrong")
        if values["format"] != FORMAT:
            raise WrongInput(f"{path} has format {values['format']}; this version reads {FORMAT}")
        manifest = _Manifest.model_validate(values)
    except WrongInput:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path} cannot be read") from None
    names_are_plain = all(re.fullmatch(r"[\w-]+(\.\w+)?", name) for name in manifest.files)
    if _step(place) != f"step-{manifest.step:08d}" or not names_are_plain:
        raise Damaged(f"{path} does not belong to this folder")
    return manifest


def _seal(manifest: dict[str, Any]) -> bytes:
    """The manifest with its own checksum; equal content gives equal bytes."""
    text = json.dumps(manifest, sort_keys=True)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256": "{checksum}", "manifest": {text}}}\n'.encode()


def _steps(folder: Path) -> list[Path]:
    """The folders of all checkpoints, the newest first."""
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if re.fullmatch(r"step-\d{8,}(-\d)?", p.name)), reverse=True)


def _step(place: Path) -> str:
    return "-".join(place.name.split("-")[:2])


def _intact(places: list[Path]) -> Iterator[Checkpoint]:
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
    """Keep the newest, the best and the one just written; remove all others.

    Later steps are removed, too: the run went back to an older checkpoint, and is now on another path. So are
    other checkpoints of the same step.
    """
    places = [written, *(place for place in _steps(folder) if place.name < _step(written))]
    kept = {*places[:KEEP], max(places, key=_score)}
    for place in _steps(folder):
        if place not in kept:
            files.remove(place)
