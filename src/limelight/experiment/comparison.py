"""Several runs side by side: the settings that differ, their results, and means over seeds."""

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from limelight.experiment.compared_runs import ComparedRun
from limelight.experiment.grid import short_names, value_text
from limelight.tasks.task import Goal

MOST_IN_LABEL = 3  # settings in the label of a run


@dataclass(frozen=True)
class Spread:
    """A metric of several runs. The standard deviation is that of a sample; None for a single run."""

    mean: float
    deviation: float | None
    smallest: float
    largest: float


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed. The metrics are those of the finished ones."""

    label: str
    runs: tuple[int, ...]
    finished: int
    metrics: dict[str, Spread]


@dataclass(frozen=True)
class Comparison:
    """Several runs, in the order in which they were given."""

    runs: tuple[ComparedRun, ...]

    @cached_property
    def settings(self) -> dict[str, list[Any]]:
        """The settings that differ, the seed last: one value per run, None if a run has no such setting."""
        keys = sorted(dict.fromkeys(key for run in self.runs for key in run.settings), key="seed".__eq__)
        values = {key: [run.settings.get(key) for run in self.runs] for key in keys}
        return {key: found for key, found in values.items() if any(one != found[0] for one in found)}

    @cached_property
    def tasks(self) -> list[str]:
        """The kinds of tasks of the runs."""
        return list(dict.fromkeys(run.experiment.task.kind for run in self.runs))

    @cached_property
    def metrics(self) -> dict[str, list[float | None]]:
        """One value per run, None for an unfinished one. Of different tasks, only the common metrics."""
        finished = [run for run in self.runs if run.report]
        names = dict.fromkeys(name for run in finished for name in run.metrics)
        if len(self.tasks) > 1:
            names = dict.fromkeys(name for name in names if all(name in run.metrics for run in finished))
        return {name: [run.metrics.get(name) for run in self.runs] for name in names}

    @cached_property
    def goals(self) -> dict[str, Goal]:
        """The metrics that select checkpoints in these runs, besides the loss, by name."""
        goals = {run.goal.metric: run.goal for run in self.runs if run.goal}
        return {"loss": Goal("loss", 0.0)} | goals

    @cached_property
    def best(self) -> dict[str, float]:
        """The best value of the loss and of each goal on each split; only of runs that have the same task."""
        found = dict[str, float]()
        if len(self.tasks) > 1:
            return found
        for name, values in self.metrics.items():
            known = [value for value in values if value is not None and not math.isnan(value)]
            goal = self.goals.get(name.split(" ", 1)[1])
            if goal and len(set(known)) > 1:
                found[name] = max(known, key=goal.rank)
        return found

    @cached_property
    def labels(self) -> list[str]:
        """A short unique text for each run: the settings that differ, or its name if they are too many."""
        texts = [self._describe(list(self.settings), number) for number in range(len(self.runs))]
        if not self.settings or len(self.settings) > MOST_IN_LABEL or len(set(texts)) < len(texts):
            return [run.name for run in self.runs]
        return texts

    def _describe(self, keys: Sequence[str], number: int) -> str:
        short = short_names(keys)
        return ", ".join(f"{short[key]}={value_text(self.settings[key][number])}" for key in keys)

    @cached_property
    def groups(self) -> list[Group]:
        """The runs grouped by all settings except for the seed."""
        members = dict[str, list[int]]()
        for number, run in enumerate(self.runs):
            others = {key: value for key, value in run.settings.items() if key != "seed"}
            members.setdefault(json.dumps(others, sort_keys=True), []).append(number)
        return [self._group(numbers) for numbers in members.values()]

    def _group(self, numbers: list[int]) -> Group:
        keys = [key for key in self.settings if key != "seed"]
        named = self._describe(keys, numbers[0]) if len(keys) <= MOST_IN_LABEL else self.runs[numbers[0]].name
        finished = [number for number in numbers if self.runs[number].report]
        metrics = dict[str, Spread]()
        for name, values in self.metrics.items():
            found = [value for number in finished if (value := values[number]) is not None]
            if found:
                deviation = _deviation(found)
                mean = math.fsum(found) / len(found)
                metrics[name] = Spread(mean, deviation, min(found), max(found))
        return Group(named or "all runs", tuple(numbers), len(finished), metrics)

    @property
    def has_seeds(self) -> bool:
        """Whether some runs differ only in their seed."""
        return any(len(group.runs) > 1 for group in self.groups)

    @property
    def unfinished(self) -> list[ComparedRun]:
        """The runs without a report."""
        return [run for run in self.runs if run.report is None]

    @cached_property
    def notes(self) -> list[str]:
        """What a reader of the comparison should know."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        if len(self.tasks) > 1:
            kinds = ", ".join(self.tasks)
            yield f"different tasks ({kinds}): only the metrics that all of them have are compared"
        digests = {(run.settings["seed"], run.data) for run in self.runs if run.data}
        if len(digests) > len({seed for seed, _ in digests}):
            yield "the runs were not trained and evaluated on the same data"
        if self.unfinished:
            names = ", ".join(run.name for run in self.unfinished)
            yield f"not finished: {names}; resume with limelight train RUN --resume"

    def describe(self) -> dict[str, Any]:
        """As a JSON object; numbers that are not finite are null."""
        return _finite(
            {
                "runs": [self._describe_run(number) for number in range(len(self.runs))],
                "settings": list(self.settings),
                "groups": [
                    asdict(group) | {"runs": [self.runs[number].name for number in group.runs]}
                    for group in self.groups
                ],
                "notes": self.notes,
            }
        )

    def _describe_run(self, number: int) -> dict[str, Any]:
        run = self.runs[number]
        report = run.report
        return {
            "run": str(run.path),
            "name": run.name,
            "task": run.experiment.task.kind,
            "finished": report is not None,
            "settings": {key: values[number] for key, values in self.settings.items()},
            "metrics": report.metrics if report else {},
            "baseline": asdict(report.baseline) if report and report.baseline else None,
            "parameters": report.parameters if report else None,
            "steps": run.step,
            "best_step": report.best_step if report else None,
            "seconds": report.seconds if report else None,
        }


def _deviation(values: Sequence[float]) -> float | None:
    """The standard deviation; NaN if a value is not finite."""
    if len(values) < 2:
        return None
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def _finite(value: Any) -> Any:
    """The JSON value with null instead of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
