"""A time limit for one call of the checked code."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CALL_SECONDS = 8.0  # of the processor, for one call with small inputs


class TooSlow(BaseException):
    """The time limit is over; no subclass of Exception, which the checked code may catch."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the block after so many seconds of the processor; no limit outside the main thread.

    Other programs do not use up this time, so that the results are the same on a busy machine.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise TooSlow

    handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
