"""The metrics of a run, written for other programs while it trains.

They are written from the journal: when a run begins or is resumed, each log is begun again with the points
that the journal has at that moment. What the journal does not contain, the time and the speed, is kept in
`speed.jsonl` in the run folder, and only for the logs.
"""

import json
import math
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from limelight.bridge.run_log import Point, RunLog
from limelight.config import flatten
from limelight.errors import wrong
from limelight.experiment.config import FILE, Experiment
from limelight.experiment.engines import bridge_module
from limelight.experiment.run import Report
from limelight.training.config import TrainConfig
from limelight.training.folder import JOURNAL
from limelight.training.interrupt import Interrupted
from limelight.training.journal import Journal, read_journal
from limelight.training.optimise import rate_at
from limelight.training.progress import Metrics, Watcher

SPEED = "speed.jsonl"
# Each module has the class `Log`. It needs the packages of the extra of this name.
LOGS = {"tensorboard": "limelight.bridge.tensorboard", "mlflow": "limelight.bridge.mlflow"}


def log_modules(names: str | Sequence[str]) -> dict[str, Any]:
    """The modules that write these logs; refused if a name is unknown or a package is missing."""
    found = {}
    for name in [names] if isinstance(names, str) else names:
        if name not in LOGS:
            raise wrong("--log", repr(name), ", ".join(map(repr, LOGS)))
        found[name] = bridge_module(LOGS[name], name)
    return found


def open_logs(names: str | Sequence[str], folder: Path, wanted: Experiment) -> list[RunLog]:
    """The logs of a run; they write nothing yet."""
    settings = flatten(tomllib.loads(wanted.to_toml()))
    return [module.Log(folder, wanted.name, settings) for module in log_modules(names).values()]


class Logs(Watcher):
    """Writes the logs of a run. If one cannot be written, it ends with a note and training goes on."""

    def __init__(
        self, opened: Sequence[RunLog], folder: Path, config: TrainConfig, note: Callable[[str], None]
    ) -> None:
        self._waiting, self._open = list(opened), list[RunLog]()
        self._folder, self._config, self._note = folder, config, note
        self._tokens, self._since = 0, time.perf_counter()

    def begin(self, step: int, total: int, unit: str) -> None:
        """Begin the logs with the points of the journal."""
        self._total, self._unit = total, unit
        if not self._waiting:
            return
        path, known = self._folder / JOURNAL, read_speed(self._folder / SPEED)
        lines = read_journal(path) if path.is_file() else []
        points = [self._point(line, *known.get(line["step"], (time.time(), None))) for line in lines]
        for log in self._waiting:
            if self._works(log, lambda log: log.begin(points)):
                self._open.append(log)
        self._tokens, self._since = 0, time.perf_counter()

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """Count the units of a step."""
        self._tokens += tokens

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """Add the metrics of an evaluation."""
        if not self._open:
            return
        speed, now = self._tokens / max(time.perf_counter() - self._since, 1e-9), time.time()
        Journal(self._folder / SPEED).append({"step": step, "time": now, "speed": speed})
        line = {"step": step, "epoch": epoch, "train": train, "validation": validation}
        point = self._point(line, now, speed)
        self._write(lambda log: log.add(point))
        self._tokens, self._since = 0, time.perf_counter()

    def finish(self, report: Report, figures: Sequence[Path]) -> None:
        """Add the final metrics, the figures, the settings and the report."""
        values = {
            f"report/{split}/{name}": value
            for split, metrics in report.metrics.items()
            for name, value in metrics.items()
        }
        values |= {"report/parameters": report.parameters, "report/seconds": report.seconds}
        point = Point(report.best_step, time.time(), values)
        paths = [*figures, self._folder / FILE, self._folder / "report.json"]
        self._write(lambda log: log.finish(point, paths))

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Note in the logs if training stops before its end."""
        try:
            yield
        except BaseException as error:
            failed = not isinstance(error, Interrupted | KeyboardInterrupt)
            self._write(lambda log: log.stop(failed=failed))
            raise

    def _point(self, line: dict[str, Any], now: float, speed: float | None) -> Point:
        """The numbers of a line of the journal. The learning rate is that of the step before it."""
        values = {
            f"{split}/{name}": value
            for split in ("train", "validation")
            for name, value in line[split].items()
        }
        values["progress/epoch"] = line["epoch"]
        values["progress/learning_rate"] = rate_at(self._config, line["step"] - 1, self._total)
        if speed is not None:
            values[f"progress/{self._unit}_per_second"] = speed
        return Point(line["step"], now, values)

    def _write(self, action: Callable[[RunLog], None]) -> None:
        self._open = [log for log in self._open if self._works(log, action)]

    def _works(self, log: RunLog, action: Callable[[RunLog], None]) -> bool:
        """Whether the log can be written; otherwise with a note."""
        try:
            action(log)
        except OSError as error:
            reason = f"{error.filename or log.place}: {error.strerror or error}"
            self._note(f"the log for {log.title} ends here: {reason}; --resume with --log writes it again")
            return False
        return True


def read_speed(path: Path) -> dict[int, tuple[float, float]]:
    """Time and speed of each evaluation; a line that a killed process left unfinished is skipped."""
    found = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
            time_and_speed = float(line["time"]), float(line["speed"])
            if all(map(math.isfinite, time_and_speed)):
                found[int(line["step"])] = time_and_speed
        except (ValueError, KeyError, TypeError):
            continue
    return found
