"""Display of training progress: a live bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from limelight.progress import shown_by

Metrics = dict[str, float]
NARROW = 15  # columns of a bar, so that a line with it fits into 80


class Watcher:
    """Callbacks of a trainer. This class ignores all of them; subclasses override those that they need."""

    def note(self, text: str) -> None:
        """A message for the user."""

    def phase(self, text: str) -> AbstractContextManager[None]:
        """Context of work before or after the steps of training, such as "evaluating"."""
        return nullcontext()

    def begin(self, step: int, total: int, unit: str) -> None:
        """Training starts after `step` of `total` steps; `unit` is the throughput unit, e.g. "tokens"."""

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """A step is done, with this number of units in its batch and these training metrics."""

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """An evaluation is done; `train` holds means over the steps since the last evaluation."""

    def end(self) -> None:
        """Training ends, also by an exception."""


class Together(Watcher):
    """Several watchers, as one."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def note(self, text: str) -> None:
        """A message for the user."""
        for one in self._watchers:
            one.note(text)

    @contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Context of work before or after the steps of training."""
        with ExitStack() as stack:
            for one in self._watchers:
                stack.enter_context(one.phase(text))
            yield

    def begin(self, step: int, total: int, unit: str) -> None:
        """Training starts."""
        for one in self._watchers:
            one.begin(step, total, unit)

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """A step is done."""
        for one in self._watchers:
            one.step(step, tokens, metrics)

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """An evaluation is done."""
        for one in self._watchers:
            one.evaluated(step, epoch, train, validation)

    def end(self) -> None:
        """Training ends."""
        for one in self._watchers:
            one.end()


class Lines(Watcher):
    """One line per evaluation."""

    def __init__(self) -> None:
        self._tokens, self._since = 0, time.perf_counter()
        self._total = 0

    def note(self, text: str) -> None:
        """Print a note."""
        print(text, file=sys.stderr, flush=True)

    def phase(self, text: str) -> AbstractContextManager[None]:
        """Print what begins after training; before it, errors are to be the only line."""
        if self._total:
            self.note(text)
        return nullcontext()

    def begin(self, step: int, total: int, unit: str) -> None:
        """Start the display."""
        self._total, self._unit = total, unit
        self._since = time.perf_counter()
        self.note(f"step {step} of {total}")

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """Count the units of a step."""
        self._tokens += tokens

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """Print the metrics of an evaluation."""
        speed = self._tokens / max(time.perf_counter() - self._since, 1e-9)
        where = f"step {step} of {self._total}, epoch {epoch:.2f}"
        self.note(
            f"{where}: training {show(train)}; validation {show(validation)}; {speed:,.0f} {self._unit}/s"
        )
        self._tokens, self._since = 0, time.perf_counter()


class Bar(Watcher):
    """A progress bar with step, loss and remaining time; above it, one line per evaluation."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(NARROW),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeRemainingColumn(),
            console=self._console,
            refresh_per_second=4,
        )
        self._tokens, self._since = 0, time.perf_counter()
        self._shown = 0.0

    def note(self, text: str) -> None:
        """Print a note above the bar."""
        self._console.print(Text(text))

    @contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Show a bar until the work ends; without tracked loops, it only moves."""
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(NARROW),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        ) as progress:
            bar = progress.add_task(text, total=None, count="")

            def display(done: int, total: int) -> None:
                progress.update(bar, completed=done, total=total, count=f"{done:,}/{total:,}")

            with shown_by(display):
                yield

    def begin(self, step: int, total: int, unit: str) -> None:
        """Start the display."""
        self._unit = unit
        self._bar = self._progress.add_task("", total=total, completed=step, loss="")
        self._since = time.perf_counter()
        self._progress.start()

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        """Show the loss of a step."""
        self._tokens += tokens
        now = time.perf_counter()
        if now - self._shown > 0.25:  # seconds: faster updates are unreadable
            self._progress.update(self._bar, completed=step, loss=f"loss {metrics['loss']:.4f}")
            self._shown = now

    def evaluated(self, step: int, epoch: float, train: Metrics, validation: Metrics) -> None:
        """Print the metrics of an evaluation above the bar."""
        speed = self._tokens / max(time.perf_counter() - self._since, 1e-9)
        self.note(f"epoch {epoch:.2f}: {show(train)} ({speed:,.0f} {self._unit}/s)")
        self.note(f"  validation {show(validation)}")
        self._progress.update(self._bar, completed=step)
        self._tokens, self._since = 0, time.perf_counter()

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
