"""A program that kills a sweep with SIGKILL, and resumes it.

    python sweep_kills.py moments SEED       three times, each at a random moment
    python sweep_kills.py operations A B C   at these file operations, counted from each start
    … broken                                 the same; a resumed run loses the state of its optimiser

It prints a JSON line: how often the sweep was killed, which runs it had finished then, and whether it ended
equal to an undisturbed one. It is a program of its own, because a process with threads must not fork.
"""

import hashlib
import json
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tiny import GENERATED, SETTINGS
from training.kills import die_at, run_in_child  # fsync is off: see conftest.py

import limelight
from limelight.experiment.grid import read_sweep
from limelight.training.optimise import Optimiser

TINY = SETTINGS | GENERATED | {"task.data.longest": 11}
EXACT = ("weights.safetensors", "training.safetensors", "data.json", "metrics.jsonl", "sweep.json")


def train(folder: Path, *, resume: bool = False, operation: int = 0, broken: bool = False) -> None:
    """Two values and two seeds: four runs."""
    if operation:
        die_at(operation)
    if broken:
        Optimiser.load_state_dict = lambda self, state: None  # type: ignore[method-assign]
    limelight.sweep("majority", {"model.heads": [1, 2]}, folder, settings=TINY, seeds=2, resume=resume)


def result(folder: Path) -> dict[str, str]:
    """Digests of what a sweep writes. Pages and manifests contain times; of reports, the metrics count."""
    found = dict[str, str]()
    for path in sorted(folder.rglob("*")):
        name, content = str(path.relative_to(folder)), path.read_bytes() if path.is_file() else b""
        if path.name == "report.json":
            report: dict[str, Any] = json.loads(content)
            found[name] = json.dumps(report | {"seconds": 0})
        else:
            found[name] = hashlib.sha256(content).hexdigest() if path.name in EXACT else ""
    return found


def main(how: str, *numbers: str) -> None:
    broken = "broken" in numbers
    chosen = [int(number) for number in numbers if number != "broken"]
    with tempfile.TemporaryDirectory() as name:
        whole, killed = Path(name) / "whole", Path(name) / "killed"
        begin = time.perf_counter()
        run_in_child(partial(train, whole))
        duration = time.perf_counter() - begin
        dice = random.Random(chosen[0])
        moments = [dice.uniform(0.1, 0.3) * duration for _ in range(3)]
        kills, finished = 0, list[int]()
        for place in range(3):
            work = partial(train, killed, resume=place > 0, broken=broken and place > 0)
            if how == "operations":
                kills += run_in_child(partial(work, operation=chosen[place]))
            else:
                kills += run_in_child(work, moments[place])
            begun = read_sweep(killed)
            finished.append(len(begun.finished) if begun else 0)
        run_in_child(partial(train, killed, resume=True, broken=broken))
        same = result(killed) == result(whole)
        print(json.dumps({"kills": kills, "finished": finished, "same": same, "files": len(result(whole))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
