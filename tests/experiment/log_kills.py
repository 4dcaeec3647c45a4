"""A program that trains runs with logs, each in a child process, and kills some of them with SIGKILL.

    python log_kills.py FOLDER           FOLDER/whole; FOLDER/5 and FOLDER/9 are killed at step 7 and resumed
    python log_kills.py FOLDER broken    the same with logs that a resumed run continues as they are

The process dies after the first evaluation, before it is saved: the logs have a point that the newest
checkpoint does not have. In FOLDER/5 this checkpoint is of step 5; FOLDER/9 has none.
"""

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tiny import RECIPES, SETTINGS
from training.kills import run_in_child  # fsync is off: see conftest.py

import limelight
from limelight.bridge import tensorboard
from limelight.bridge.run_log import Point
from limelight.training import checkpoint
from limelight.training.checkpoint import Checkpoint

LOGS = ("tensorboard", "mlflow")


def fit(path: Path, save_every: str = "5 steps") -> None:
    settings = SETTINGS | RECIPES["majority"] | {"train.epochs": 2, "train.save_every": save_every}
    limelight.train("majority", settings, path, log=LOGS)


def fit_and_die(path: Path, save_every: str) -> None:
    """Die instead of saving step 7."""

    def save(folder: Path, checkpoint: Checkpoint) -> None:
        if checkpoint.step == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        saved(folder, checkpoint)

    saved, checkpoint.save = checkpoint.save, save
    fit(path, save_every)


def break_logs() -> None:
    """Let a resumed run append to its logs, as SummaryWriter and the client of MLflow do."""

    def begin(self: tensorboard.Log, points: Sequence[Point]) -> None:
        old = next(self.place.glob("*tfevents*"), None)
        if old is None:
            begun(self, points)
        else:
            self._file = old

    begun, tensorboard.Log.begin = tensorboard.Log.begin, begin  # type: ignore[method-assign]
    shutil.rmtree = lambda *_, **__: None  # type: ignore[assignment]


def main(folder: Path, *variant: str) -> None:
    if variant:
        break_logs()
    run_in_child(partial(fit, folder / "whole"))
    for steps in (5, 9):
        path = folder / str(steps)
        assert run_in_child(partial(fit_and_die, path, f"{steps} steps"))
        run_in_child(partial(limelight.train, path, resume=True, log=LOGS))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
