"""Display of training progress: a live bar on a terminal, plain lines elsewhere."""

import math
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Metrics = dict[str, float]


class Watcher:
    """Callbacks of a trainer. This class ignores all of them; subclasses override those that they need."""

    def note(self, text: str) -> None:
        """A message for the user."""

    def begin(self, step: int, total: int, unit: str) -> None:
        """Training starts after `step` of `total` steps; `unit` is the throughput unit, e.g. "tokens"."""

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """A step is done, with this number of units in its batch and these training metrics."""

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """An evaluation is done; `train` holds means over the steps since the last evaluation."""

    def end(self) -> None:
        """Training ends, also by an exception."""


class Lines(Watcher):
    """One line per evaluation."""

    def __init__(self) -> None:
        self._tokens, self._since = 0, time.perf_counter()

    def note(self, text: str) -> None:
        """Print a note."""
        print(text, file=sys.stderr, flush=True)

    def begin(self, step: int, total: int, unit: str) -> None:
        """Start the display."""
        self._total, self._unit = total, unit
        self._since = time.perf_counter()
        print(f"step {step} of {total}", file=sys.stderr, flush=True)

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """Show the metrics of a step."""
        self._tokens += tokens

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """Print the metrics of an evaluation."""
        now = time.perf_counter()
        speed = self._tokens / max(now - self._since, 1e-9)
        where = f"step {step} of {self._total}, epoch {epoch:.2f}"
        text = f"{where}: training {show(train)}; validation {show(validation)}; {speed:,.0f} {self._unit}/s"
        print(text, file=sys.stderr, flush=True)
        self._tokens, self._since = 0, time.perf_counter()


class Bar(Watcher):
    """A progress bar with the metrics, throughput and remaining time, and the last evaluation."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[metrics]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[validation]}"),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._tokens, self._since = 0, time.perf_counter()

    def note(self, text: str) -> None:
        """Print a note."""
        print(text, file=sys.stderr, flush=True)

    def begin(self, step: int, total: int, unit: str) -> None:
        """Start the display."""
        self._unit = unit
        self._bar = self._progress.add_task(
            "", total=total, completed=step, metrics="", speed="", validation=""
        )
        self._since = time.perf_counter()
        self._progress.start()

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """Show the metrics of a step."""
        self._tokens += tokens
        now = time.perf_counter()
        if now - self._since > 0.25:  # seconds: faster updates are unreadable
            speed = f"{self._tokens / (now - self._since):,.0f} {self._unit}/s"
            self._progress.update(self._bar, completed=step, metrics=show(metrics), speed=speed)
            self._tokens, self._since = 0, now

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """Print the metrics of an evaluation."""
        text = f"validation {show(validation)}"
        self._progress.update(self._bar, completed=step, metrics=show(train), validation=text)

    def end(self) -> None:
        """Close the display."""
        self._progress.stop()


def watcher() -> Watcher:
    """A progress bar if stderr is a terminal, lines otherwise."""
    return Bar() if sys.stderr.isatty() else Lines()


def show(metrics: Metrics) -> str:
    """Metrics as text: "loss 0.1234, accuracy 98.76 %"."""
    return ", ".join(f"{name} {show_metric(name, value)}" for name, value in metrics.items())


def show_metric(name: str, value: float) -> str:
    """One metric as text. Accuracies are rounded down, so that "100.00 %" always means all."""
    if name in ("accuracy", "exact"):
        return f"{math.floor(value * 10_000 + 1e-6) / 100:.2f} %"
    return f"{value:.2f}" if name in ("bleu", "bleu_lowercase", "chrf") else f"{value:.4f}"
