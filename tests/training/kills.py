"""A program that forks child processes and kills them with SIGKILL.

    python kills.py moments TRIALS SEED      R1: at a random moment; every fourth kill is inside a save
    python kills.py operations               R2: at each operation of a save
    python kills.py starts 11 22 37          at these file operations of runs that start from another run
    … broken                                 the same with a broken save, which removes old checkpoints first

It prints one JSON line per trial. It is a program of its own, because a process with threads must not fork.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from limelight.training import checkpoint, files
from limelight.training.checkpoint import Checkpoint

STARTED: dict[str, Any] = {
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

os.fsync = lambda fd: None  # see conftest.py


def run_in_child(work: Callable[[], object], kill_after: float | None = None) -> bool:
    """Run `work` in a child process; returns whether it was killed before it had finished."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed without being killed"
    return os.WIFSIGNALED(status)


def die_at(number: int) -> None:
    """Let this process kill itself when it starts the file operation with this number."""
    count = 0

    def perform(operation: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return operation(*arguments)

    files.perform = perform


def save_after_removing(folder: Path, checkpoint: Checkpoint) -> None:
    """The broken variant: there is a moment without any checkpoint."""
    for old in folder.glob("step-*"):
        files.remove(old)
    save(folder, checkpoint)


save = checkpoint.save


def moments(trials: int, seed: int) -> None:
    from tiny import fit, result  # imports torch, once for all children

    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        begin = time.perf_counter()
        run_in_child(lambda: fit(whole))
        duration = time.perf_counter() - begin
        for trial in range(trials):
            path = Path(folder) / str(trial)
            in_a_save = trial % 4 == 0
            operation = dice.randrange(1, 200) if in_a_save else 0

            def work(path: Path = path, operation: int = operation) -> None:
                if operation:
                    die_at(operation)
                fit(path)

            killed = run_in_child(work, None if in_a_save else dice.uniform(0, duration))
            run_in_child(partial(fit, path, resume=True))
            outcome = {"killed": killed, "in_a_save": in_a_save, "same": result(path) == result(whole)}
            print(json.dumps(outcome), flush=True)


def operations() -> None:
    """Checkpoints 1, 2 and 3 exist; the process dies while it saves the fourth."""
    for operation in range(1, 1000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            for step in (1, 2, 3):
                checkpoint.save(path, create(step))

            def work(path: Path = path, operation: int = operation) -> None:
                die_at(operation)
                checkpoint.save(path, create(4))

            if not run_in_child(work):
                return
            found = checkpoint.newest(path)
            intact = found is not None and found.step in (3, 4) and found == create(found.step)
            checkpoint.save(path, create(5))
            print(
                json.dumps({"operation": operation, "same": intact and checkpoint.newest(path) == create(5)}),
                flush=True,
            )


def starts(*operations: int) -> None:
    """The other run is removed before a killed run is resumed; one that had not begun is trained again."""
    from small_recipes import write_texts

    import limelight

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = write_texts(folder / "old.csv", "good bad quite rather")
        data = write_texts(folder / "new.csv", "other unlike quite rare good")
        source, whole = folder / "source", folder / "whole"
        run_in_child(partial(limelight.train, "text", OF_SOURCE, source, data=old))
        run_in_child(partial(limelight.train, "text", STARTED, whole, data=data, start=source))
        for operation in operations:
            copy, run = folder / f"source-{operation}", folder / f"run-{operation}"
            shutil.copytree(source, copy)
            begin = partial(limelight.train, "text", STARTED, run, data=data, start=copy)

            def work(begin: Callable[[], object] = begin, operation: int = operation) -> None:
                die_at(operation)
                begin()

            killed = run_in_child(work)
            begun = (run / "experiment.toml").is_file()
            if begun:
                shutil.rmtree(copy)
            run_in_child(partial(limelight.train, run, resume=True) if begun else begin)
            print(
                json.dumps({"killed": killed, "begun": begun, "same": written(run) == written(whole)}),
                flush=True,
            )


def written(run: Path) -> dict[Path, str]:
    """Digests of what training writes. Figures, manifests and reports contain times; they only exist."""
    exact = ("weights.safetensors", "training.safetensors", "data.json", "metrics.jsonl")
    return {
        file.relative_to(run): hashlib.sha256(file.read_bytes()).hexdigest() if file.name in exact else ""
        for file in run.rglob("*")
    }


def create(step: int) -> Checkpoint:
    return Checkpoint(step, {"score": -step}, {"weights": bytes([step]) * 997, "data": b"{}"})


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    if "broken" in numbers:
        numbers.remove("broken")
        checkpoint.save = save_after_removing
    programs: dict[str, Callable[..., None]] = {
        "moments": moments,
        "operations": operations,
        "starts": starts,
    }
    programs[what](*map(int, numbers))
