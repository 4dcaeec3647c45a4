"""A program that forks child processes, which train from another run and kill themselves with SIGKILL.

    python start_kills.py 3 17 29      at the file operations with these numbers, in one child each

The other run is removed before a killed run is resumed. If the run had not begun, it is trained again. One
JSON line per child is printed. It is a program of its own, because a process with threads must not fork.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "training")]

from kills import die_at, run_in_child

import limelight
from limelight.experiment.config import FILE

SETTINGS: dict[str, Any] = {
    "model.hidden": 13,
    "train.epochs": 1,
    "train.epoch_steps": 30,
    "train.batch": 10,
    "train.evaluate_every": "7 steps",
    "train.save_every": "5 steps",
    "train.optimiser": "muon",
    "train.freeze": ["encoder.input"],
    "train.rates": {"encoder": 0.5},
}
OF_SOURCE = {"model.width": 8, "model.hidden": 13, "train.epochs": 0.02}


def write_table(path: Path, words: str) -> Path:
    """Texts of these words, labelled by their first word."""
    known = words.split()
    rows = [f"{known[i % 2]} {known[i % len(known)]} number {i % 7},{i % 2}" for i in range(60)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


def result(run: Path) -> list[str]:
    """Digests of everything that training writes, without the times in the manifests."""
    names = ("weights.safetensors", "training.safetensors", "data.json")
    files = [file for name in names for file in sorted(run.glob(f"checkpoints/step-*/{name}"))]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in (*files, run / "metrics.jsonl")]


def files_in(run: Path) -> set[Path]:
    """The names of all files of a run."""
    return {path.relative_to(run) for path in run.rglob("*")}


def main(operations: list[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_table(folder / "new.csv", "other unlike quite rare good")
        old = write_table(folder / "old.csv", "good bad quite rather")
        source, whole = folder / "source", folder / "whole"
        run_in_child(lambda: limelight.train("text", OF_SOURCE, source, data=old))
        run_in_child(lambda: limelight.train("text", SETTINGS, whole, data=data, start=source))
        for operation in operations:
            copy, run = folder / f"source-{operation}", folder / f"run-{operation}"
            shutil.copytree(source, copy)

            def work(copy: Path = copy, run: Path = run, operation: int = operation) -> None:
                die_at(operation)
                limelight.train("text", SETTINGS, run, data=data, start=copy)

            killed = run_in_child(work)
            begun = (run / FILE).is_file()
            if begun:
                shutil.rmtree(copy)
                run_in_child(partial(limelight.train, run, resume=True))
            else:
                run_in_child(partial(limelight.train, "text", SETTINGS, run, data=data, start=copy))
            same = result(run) == result(whole) and files_in(run) == files_in(whole)
            print(json.dumps({"killed": killed, "begun": begun, "same": same}), flush=True)


os.fsync = lambda fd: None  # see conftest.py

if __name__ == "__main__":
    main([int(number) for number in sys.argv[1:]])
