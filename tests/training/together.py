"""Run under torchrun: what two processes make of one run.

    torchrun --nproc-per-node 2 together.py FOLDER curve         one run without dropout
    torchrun --nproc-per-node 2 together.py FOLDER resume 1 61   stopped at each of these steps, and resumed

The first process prints JSON lines.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from tiny import StopAt, fit, result

from limelight.training.distributed import World, joined
from limelight.training.loop import Progress


def alike(world: World, progress: Progress) -> bool:
    """Whether all processes are where this one is."""
    return world.add_up([float(progress.step)]) == [float(progress.step * world.size)]


def main(folder: Path, what: str, *steps: str) -> None:
    with joined(torch.device("cpu")) as world:
        if what == "curve":
            fit(folder / "two", world=world, **{"model.dropout": 0.0})
            return
        fit(folder / "whole", world=world)
        for step in range(*map(int, steps)):
            path = folder / str(step)
            fit(path, world=world, watcher=StopAt(step))
            progress = fit(path, world=world, resume=True)
            together = progress is not None and alike(world, progress)
            if world.first:
                same = result(path) == result(folder / "whole")
                print(json.dumps({"step": step, "same": same, "together": together}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
