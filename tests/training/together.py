"""A program for torchrun: two processes train one model.

    torchrun --nproc-per-node 2 together.py FOLDER 1 61

trains one run without dropout in FOLDER/two, and runs that are interrupted at each step from 1 to 60 and
resumed. The first process prints one JSON line per interrupted run.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from tiny import StopAt, fit, result

from limelight.training.distributed import World, joined
from limelight.training.folder import Progress

os.fsync = lambda fd: None  # see conftest.py


def alike(world: World, progress: Progress) -> bool:
    """Whether all processes are at the same step."""
    return world.all_reduce([float(progress.step)]) == [float(progress.step * world.size)]


def main(folder: Path, *steps: str) -> None:
    with joined(torch.device("cpu")) as world:
        fit(folder / "two", {"model.dropout": 0.0}, world=world)
        fit(folder / "uninterrupted", world=world)
        for step in range(*map(int, steps)):
            path = folder / str(step)
            fit(path, world=world, watcher=StopAt(step))
            progress = fit(path, world=world, resume=True)
            together = progress is not None and alike(world, progress)
            if world.first:
                same = result(path) == result(folder / "uninterrupted")
                print(json.dumps({"step": step, "same": same, "together": together}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
