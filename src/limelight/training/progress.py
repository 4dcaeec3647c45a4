"""What is shown while a run goes on: a live bar on a terminal, plain lines elsewhere."""

import math
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Metrics = dict[str, float]


class Watcher:
    """Hears how a run goes on, and says nothing of it."""

    def note(self, text: str) -> None: ...

    def begin(self, step: int, total: int, unit: str) -> None: ...

    def step(self, step: int, tokens: int, metrics: Metrics) -> None: ...

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None: ...

    def end(self) -> None: ...


class Lines(Watcher):
    """A line an evaluation."""

    def __init__(self) -> None:
        self._tokens, self._since = 0, time.perf_counter()

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def begin(self, step: int, total: int, unit: str) -> None:
        self._total, self._unit = total, unit
        self._since = time.perf_counter()
        print(f"step {step} of {total}", file=sys.stderr, flush=True)

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        self._tokens += tokens

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        now = time.perf_counter()
        speed = self._tokens / max(now - self._since, 1e-9)
        where = f"step {step} of {self._total}, epoch {epoch:.2f}"
        text = f"{where}: training {show(train)}; validation {show(validation)}; {speed:,.0f} {self._unit}/s"
        print(text, file=sys.stderr, flush=True)
        self._tokens, self._since = 0, time.perf_counter()


class Bar(Watcher):
    """Step, loss, accuracy, speed and time left; the last evaluation stands beside them."""

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
        print(text, file=sys.stderr, flush=True)

    def begin(self, step: int, total: int, unit: str) -> None:
        self._unit = unit
        self._bar = self._progress.add_task(
            "", total=total, completed=step, metrics="", speed="", validation=""
        )
        self._since = time.perf_counter()
        self._progress.start()

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        self._tokens += tokens
        now = time.perf_counter()
        if now - self._since > 0.25:  # more often than this nobody can read it
            speed = f"{self._tokens / (now - self._since):,.0f} {self._unit}/s"
            self._progress.update(self._bar, completed=step, metrics=show(metrics), speed=speed)
            self._tokens, self._since = 0, now

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        text = f"validation {show(validation)}"
        self._progress.update(self._bar, completed=step, metrics=show(train), validation=text)

    def end(self) -> None:
        self._progress.stop()


def watcher() -> Watcher:
    return Bar() if sys.stderr.isatty() else Lines()


def show(metrics: Metrics) -> str:
    return ", ".join(f"{name} {show_metric(name, value)}" for name, value in metrics.items())


def show_metric(name: str, value: float) -> str:
    """Never rounded up to a perfection that was not reached."""
    if name in ("accuracy", "exact"):
        return f"{math.floor(value * 10_000 + 1e-6) / 100:.2f} %"
    return f"{value:.2f}" if name in ("bleu", "bleu_lowercase", "chrf") else f"{value:.4f}"
