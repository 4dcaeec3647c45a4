"""Who waits for the model: a line of bounded length, and one thread that takes several of it at once."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from threading import Condition, Thread

from pydantic import Field

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.view.record import Record

Given = str | bytes  # a line of text, or an image file
# One result an input, in order; an input that is wrong is answered by what is wrong with it.
Look = Callable[[Sequence[Given]], Sequence[Record | WrongInput]]

LAST_SECONDS = 0.5  # that the end waits for the thread


class Limits(Config):
    """What one request may cost, and how many may be there."""

    together: int = Field(8, ge=1)  # inputs that the model sees at once
    waiting: int = Field(32, ge=1)  # requests that it has not seen yet
    seconds: float = Field(20.0, gt=0)  # from the line to the answer
    text_bytes: int = Field(65_536, ge=1)
    image_bytes: int = Field(10_000_000, ge=1)
    body_seconds: float = Field(10.0, gt=0)  # in which the body of a request must have arrived


LIMITS = Limits()


class Full(Exception):
    """The line is as long as it may be."""


@dataclass(eq=False)
class Place:
    """In the line, for one input: from before it arrives, because what has arrived takes memory."""

    answer: asyncio.Future[Record | Exception]
    given: Given = ""


class Line:
    """The thread takes what waits when it becomes free: nobody waits for others to come."""

    def __init__(self, look: Look, limits: Limits) -> None:
        self._look, self._limits = look, limits
        self._changed = Condition()
        self._places: set[Place] = set()  # that the thread has not taken
        self._ready: deque[Place] = deque()  # of these, those whose input is there
        self._open = False

    @property
    def waiting(self) -> int:
        return len(self._places)

    @contextmanager
    def place(self) -> Iterator[Place]:
        """Whoever leaves it before the thread has taken it is not computed."""
        place = Place(asyncio.get_running_loop().create_future())
        with self._changed:
            if self.waiting >= self._limits.waiting:
                raise Full
            self._places.add(place)
        try:
            yield place
        finally:
            self._leave(place)

    async def ask(self, place: Place, given: Given) -> Record:
        """Raises WrongInput, TimeoutError, or what went wrong on looking."""
        place.given = given
        with self._changed:
            self._ready.append(place)
            self._changed.notify()
        async with asyncio.timeout(self._limits.seconds):
            result = await place.answer
        if isinstance(result, Exception):
            raise result
        return result

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """While the thread works."""
        self._open = True
        # A daemon: the process may end although the model has not.
        thread = Thread(target=self._work, args=(asyncio.get_running_loop(),), name="look", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._open = False
                self._changed.notify()
            thread.join(LAST_SECONDS)

    def _leave(self, place: Place) -> None:
        with self._changed, suppress(ValueError):
            self._places.discard(place)
            self._ready.remove(place)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while several := self._take():
            results = self._results([place.given for place in several])
            with suppress(RuntimeError):  # the loop has ended, and with it everyone who waited
                loop.call_soon_threadsafe(_deliver, several, results)

    def _take(self) -> list[Place]:
        """The next ones, as soon as there are any; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or not self._open)
            count = min(len(self._ready), self._limits.together) if self._open else 0
            several = [self._ready.popleft() for _ in range(count)]
            self._places.difference_update(several)
            return several

    def _results(self, several: Sequence[Given]) -> list[Record | Exception]:
        try:
            results = list(self._look(several))
            if len(results) != len(several):
                raise RuntimeError(f"{len(results)} results for {len(several)} inputs")
            return [*results]
        except Exception as error:
            if len(several) == 1:
                return [error]
            # An input that breaks the model breaks no other's answer.
            return [result for given in several for result in self._results([given])]


def _deliver(several: Sequence[Place], results: Sequence[Record | Exception]) -> None:
    for place, result in zip(several, results, strict=True):
        if not place.answer.done():
            place.answer.set_result(result)
