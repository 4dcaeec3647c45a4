"""What a comparison needs from each run: its settings, its results and its journal."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from limelight.config import flatten
from limelight.errors import WrongInput
from limelight.experiment.config import Experiment, experiment
from limelight.experiment.run import Report, check_run_folder, read_report, restored
from limelight.tasks.task import Goal
from limelight.training.folder import JOURNAL
from limelight.training.journal import read_journal

NOT_SETTINGS = ("name", "about", "plugin", "start")  # a plug-in and a start have a digest, too


@dataclass(frozen=True)
class ComparedRun:
    """What a comparison needs from a run; an unfinished one has no report."""

    path: Path
    name: str
    experiment: Experiment
    report: Report | None
    journal: list[dict[str, Any]]
    goal: Goal | None = None  # None without a checkpoint
    data: str = ""  # the digest of its data

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings with dotted keys."""
        return flatten(self.experiment.model_dump(mode="json", exclude=set(NOT_SETTINGS)))

    @property
    def metrics(self) -> dict[str, float]:
        """Its results, such as {"test accuracy": 0.98}; empty if the run is not finished."""
        found = self.report.metrics if self.report else {}
        return {f"{split} {name}": value for split, values in found.items() for name, value in values.items()}

    @property
    def baseline(self) -> dict[str, float]:
        """The result of the simple model, such as {"test baseline accuracy": 0.85}, if there is one."""
        if self.report is None or self.report.baseline is None:
            return {}
        split = list(self.report.metrics)[-1]
        return {f"{split} baseline {self.report.baseline.metric}": self.report.baseline.value}

    @property
    def step(self) -> int:
        """The last step, or that of the last evaluation of an unfinished run."""
        if self.report is not None:
            return self.report.steps
        return int(self.journal[-1]["step"]) if self.journal else 0


def read_runs(paths: Sequence[Path]) -> tuple[ComparedRun, ...]:
    """Read the results of run folders."""
    known = set[Path]()
    for path in paths:
        check_run_folder(path)
        if path.resolve() in known:
            raise WrongInput(f"{path} is given more than once")
        known.add(path.resolve())
    if len(paths) < 2:
        raise WrongInput("a comparison needs two or more runs")
    names = _short_paths([path.absolute() for path in paths])
    return tuple(_read(path, name) for path, name in zip(paths, names, strict=True))


def _read(path: Path, name: str) -> ComparedRun:
    """The settings are those of the best checkpoint, even if the file was changed since."""
    trained, task, saved = next(restored(path), None) or (experiment(path), None, None)
    if trained.plugin:
        warnings.warn(f"{path} runs the code of its plug-in {trained.plugin}", stacklevel=2)
    goal = task.goal if task else None
    metrics = ("loss", goal.metric) if goal else ("loss",)
    journal = read_journal(path / JOURNAL, metrics) if (path / JOURNAL).is_file() else []
    report = read_report(path) if (path / "report.json").is_file() else None
    data = saved.environment.get("data", "") if saved else ""
    return ComparedRun(path, name, trained, report, journal, goal, data)


def _short_paths(paths: Sequence[Path]) -> list[str]:
    """The last part of each path; more parts if several paths have the same."""
    most = max(len(path.parts) for path in paths)
    for count in range(1, most + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
