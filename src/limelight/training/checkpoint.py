"""Checkpoints: written as a whole or not at all, and read only if every byte is as it was written.

A checkpoint is a folder `step-00001230` of a few files and a `manifest.json`, which is written last and
knows size and SHA-256 of each; it is called `step-00001230-1` as long as an older one has its place. `newest`
and `best` are looked up, never stored.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    return next(_whole(folder, _steps(folder)), None)


def best(folder: Path) -> Checkpoint | None:
    """The whole checkpoint with the highest score, the newest of equals."""
    return next(_whole(folder, sorted(_steps(folder), key=_score, reverse=True)), None)


def read(place: Path) -> Checkpoint:
    manifest = _read_manifest(place)
    contents = {}
    for name, facts in manifest["files"].items():
        try:
            content = (place / name).read_bytes()
        except OSError as error:
            raise Damaged(f"{place / name}: {error.strerror}") from None
        if len(content) != facts["size"] or hashlib.sha256(content).hexdigest() != facts["sha256"]:
            raise Damaged(f"{place / name} is not as it was written")
        contents[name] = content
    return Checkpoint(manifest["step"], manifest["facts"], contents)


def _read_manifest(place: Path) -> dict[str, Any]:
    path = place / MANIFEST
    try:
        content = path.read_bytes()
        sealed = json.loads(content)
        manifest = sealed["manifest"]
        if content != _seal(manifest):
            raise Damaged(f"{path} is not as it was written")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path} cannot be read") from None
    if manifest["format"] != FORMAT:
        raise WrongInput(f"{path} has format {manifest['format']}; this version reads {FORMAT}")
    if _step(place) != f"step-{manifest['step']:08d}" or any("/" in name for name in manifest["files"]):
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


def _whole(folder: Path, places: list[Path]) -> Iterator[Checkpoint]:
    for place in places:
        try:
            yield read(place)
        except Damaged as damage:
            warnings.warn(f"{damage}: this checkpoint is not used", stacklevel=4)


def _score(place: Path) -> float:
    try:
        score = _read_manifest(place)["facts"]["score"]
    except (Damaged, KeyError):
        return -float("inf")
    return -float("inf") if score is None else float(score)


def _prune(folder: Path, written: Path) -> None:
    """What is later than the one just written belongs to a future that was cut off; it is the only one of
    its step."""
    places = [written, *(place for place in _steps(folder) if place.name < _step(written))]
    kept = {*places[:KEEP], max(places, key=_score)}
    for place in _steps(folder):
        if place not in kept:
            files.remove(place)
