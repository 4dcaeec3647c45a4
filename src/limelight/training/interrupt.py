"""Ctrl-C, SIGTERM and SIGHUP wait for the end of a step; a second one does not."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# What ends a process from outside; SIGHUP, when its terminal is closed. Windows has no SIGHUP.
STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(Exception):
    """A signal stopped the run after what it had was saved."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Signals:
    """The signal that came, or 0."""

    def __init__(self) -> None:
        self.number = 0

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.number:  # the user insists
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def deferred() -> Iterator[Signals]:
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield signals
        return
    numbers = [n for n in (signal.SIGINT, *STOPPING) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.note) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
