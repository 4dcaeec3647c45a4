"""Progress of long loops, reported to whoever wants to show it: code that loops knows nothing of displays."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Display = Callable[[int, int], None]  # called with the number of finished items and of all items

_display: ContextVar[Display | None] = ContextVar("display", default=None)


def track(items: Iterable[T], total: int) -> Iterator[T]:
    """Iterate over `total` items, and report the progress to the display of `shown_by`, if there is one."""
    display = _display.get()
    for done, item in enumerate(items):
        if display:
            display(done, total)
        yield item
    if display:
        display(total, total)


@contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """Context in which `display` is called with the progress of each loop over `track`."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)
