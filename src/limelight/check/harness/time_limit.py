"""A time limit for one call of the checked code."""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CALL_SECONDS = 8.0  # of the processor, for one call with small inputs


class TooSlow(BaseException):
    """The time limit is over; no subclass of Exception, which the checked code may catch."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the block after so many seconds of the processor; no limit outside the main thread.

    Other programs do not use up this time, so that the results are the same on a busy machine. Windows can
    only measure the time on the clock.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise TooSlow

    number = signal.SIGPROF if hasattr(signal, "setitimer") else signal.SIGINT
    handler = signal.signal(number, stop)
    cancel = _send_after(seconds, number)
    try:
        yield
    finally:
        cancel()
        signal.signal(number, handler)


def _send_after(seconds: float, number: int) -> Callable[[], Any]:
    """Send the signal to this process after this time; returns a function that cancels it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
        return lambda: signal.setitimer(signal.ITIMER_PROF, 0)
    timer = threading.Timer(seconds, _thread.interrupt_main, [number])
    timer.daemon = True
    timer.start()
    return timer.cancel
