"""Ctrl-C, SIGTERM and SIGHUP take effect at the end of a step; a second signal takes effect at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Besides Ctrl-C. SIGHUP is sent when the terminal is closed; on Windows, SIGBREAK.
NAMES = ("SIGTERM", "SIGHUP", "SIGBREAK")
STOPPING = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


class Interrupted(Exception):
    """A signal stopped the run, after a checkpoint was saved. `number` is the number of the signal."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Signals:
    """Records the number of the first signal received; 0 if there was none."""

    def __init__(self) -> None:
        self.number = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler; it raises `KeyboardInterrupt` on the second signal."""
        if self.number:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def deferred_signals() -> Iterator[Signals]:
    """Context in which a first signal is only recorded. Signals that the process ignores stay ignored."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield signals
        return
    numbers = [n for n in (signal.SIGINT, *STOPPING) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.handle) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
