"""Ctrl-C and SIGTERM wait for the end of a step; a second one does not."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
    before = {number: signal.signal(number, signals.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
