"""Write a trained model in a format that other programs read. It is verified before it appears."""

import json
import shutil
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from limelight.errors import WrongInput, wrong
from limelight.experiment.engines import (
    FORMATS,
    MANIFEST,
    Exported,
    digest_of,
    digest_of_file,
    export_folder,
    format_module,
)
from limelight.experiment.publish import PUBLISHED
from limelight.experiment.run import Run
from limelight.training import files
from limelight.training.progress import Watcher

QUANTIZED = {"ctranslate2": ("int8",)}  # types of weights that a format can have, besides float32


def export(
    run: Run, to: str, out: str | Path | None = None, *, quantize: str = "", watcher: Watcher | None = None
) -> Path:
    """Write the best weights of a run in another format, and return the folder; by default one in the run.

    The result is compared with the model on the spot, and appears only if it agrees. An older export in the
    same place is replaced.
    """
    if to not in (*FORMATS, *PUBLISHED):
        raise wrong("--to", repr(to), ", ".join(map(repr, (*FORMATS, *PUBLISHED))))
    if quantize and quantize not in QUANTIZED.get(to, ()):
        allowed = ", ".join(QUANTIZED.get(to, ())) or f"nothing with --to {to}"
        raise wrong("--quantize", repr(quantize), allowed)
    place, watcher = Path(out) if out else export_folder(run.path, to), watcher or Watcher()
    if place.exists() and not (place / MANIFEST).is_file() and (place.is_file() or any(place.iterdir())):
        raise WrongInput(f"{place} is not empty and contains no export; choose another folder with --out")
    write = PUBLISHED.get(to) or partial(_write_for_engine, format_module(to), quantize)
    place.parent.mkdir(parents=True, exist_ok=True)
    files.remove_unfinished(place.parent)
    unfinished = files.new_name(place.parent)
    unfinished.mkdir()
    try:
        with watcher.phase(f"exporting to {to}"):
            notes = write(run, unfinished)
        exported = Exported(
            format=to,
            weights=digest_of(run.model),
            quantize=quantize,
            limelight=version("limelight"),
            notes=tuple(notes),
            files={
                path.relative_to(unfinished).as_posix(): digest_of_file(path) for path in _all(unfinished)
            },
        )
        files.write(unfinished / MANIFEST, json.dumps(exported.model_dump(), indent=1).encode() + b"\n")
        if place.exists():
            files.remove(place)
        files.rename(unfinished, place)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    for note in notes:
        watcher.note(note)
    return place


def _write_for_engine(module: Any, quantize: str, run: Run, folder: Path) -> list[str]:
    notes: list[str] = module.write(run.task, run.model, lambda: run.dataset, folder, quantize)
    return notes


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
