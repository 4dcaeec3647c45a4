"""Requests wait in a queue of limited length; one thread computes them in batches."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from threading import Condition, Thread

from pydantic import Field

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.view.changes import Changed
from limelight.view.prompt import Prompt
from limelight.view.record import Record

# A line of text, the bytes of an image file, or a text that grows; perhaps with changed attention
Input = str | bytes | Prompt | Changed
# Returns one result per input, in order; the result of an invalid input is its error.
MakeRecords = Callable[[Sequence[Input]], Sequence[Record | WrongInput]]

JOIN_SECONDS = 0.5  # how long a shutdown waits for the thread


class Limits(Config):
    """Limits on the number, size and duration of requests."""

    together: int = Field(8, ge=1, description="maximum batch size: inputs computed together")
    waiting: int = Field(32, ge=1, description="maximum number of requests that wait for the model")
    seconds: float = Field(20.0, gt=0, description="maximum seconds from queueing a request to its answer")
    text_bytes: int = Field(65_536, ge=1, description="maximum size of a JSON body in bytes")
    image_bytes: int = Field(10_000_000, ge=1, description="maximum size of an image file in bytes")
    body_seconds: float = Field(10.0, gt=0, description="maximum seconds until the body has arrived")


LIMITS = Limits()


class QueueFull(Exception):
    """The queue has reached its maximum length."""


@dataclass(eq=False)
class Slot:
    """One request in the queue.

    A slot is reserved before the body is read, so that the limit also bounds the memory for bodies.
    """

    result: asyncio.Future[Record | Exception]
    input: Input = ""


class RequestQueue:
    """A bounded queue in front of a model.

    When the thread becomes free, it takes the requests that are waiting at that moment as one batch; it does
    not wait for a batch to fill.
    """

    def __init__(self, make_records: MakeRecords, limits: Limits) -> None:
        self._make_records, self._limits = make_records, limits
        self._changed = Condition()
        self._reserved: set[Slot] = set()  # all slots that the thread has not taken yet
        self._ready: deque[Slot] = deque()  # those of them whose input has arrived
        self._running = False

    @property
    def waiting(self) -> int:
        """The number of requests that the thread has not taken yet."""
        return len(self._reserved)

    @contextmanager
    def reserve(self) -> Iterator[Slot]:
        """Reserve a slot; raises QueueFull if there is none.

        If the context ends before the thread has taken the slot, the request is dropped.
        """
        slot = Slot(asyncio.get_running_loop().create_future())
        with self._changed:
            if self.waiting >= self._limits.waiting:
                raise QueueFull
            self._reserved.add(slot)
        try:
            yield slot
        finally:
            self._remove(slot)

    async def compute(self, slot: Slot) -> Record:
        """Queue the slot, whose input must be set, and wait for its record.

        Raises WrongInput for an invalid input, TimeoutError, or the exception of the model.
        """
        with self._changed:
            self._ready.append(slot)
            self._changed.notify()
        async with asyncio.timeout(self._limits.seconds):
            result = await slot.result
        if isinstance(result, Exception):
            raise result
        return result

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the thread as long as the context lasts."""
        self._running = True
        # A daemon thread: the process can exit while the model is still computing.
        loop = asyncio.get_running_loop()
        thread = Thread(target=self._run, args=(loop,), name="model", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._running = False
                self._changed.notify()
            thread.join(JOIN_SECONDS)

    def _remove(self, slot: Slot) -> None:
        with self._changed, suppress(ValueError):
            self._reserved.discard(slot)
            self._ready.remove(slot)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while batch := self._next_batch():
            results = self._results([slot.input for slot in batch])
            with suppress(RuntimeError):  # the loop is closed: no request is waiting any more
                loop.call_soon_threadsafe(_deliver, batch, results)

    def _next_batch(self) -> list[Slot]:
        """Wait for requests and take them; an empty list means that the thread must stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or not self._running)
            count = min(len(self._ready), self._limits.together) if self._running else 0
            batch = [self._ready.popleft() for _ in range(count)]
            self._reserved.difference_update(batch)
            return batch

    def _results(self, inputs: Sequence[Input]) -> list[Record | Exception]:
        try:
            results = list(self._make_records(inputs))
            if len(results) != len(inputs):
                raise RuntimeError(f"{len(results)} results for {len(inputs)} inputs")
            return [*results]
        except Exception as error:
            if len(inputs) == 1:
                return [error]
            # Compute each input alone, so that one failing input does not fail the others.
            return [result for one in inputs for result in self._results([one])]


def _deliver(batch: Sequence[Slot], results: Sequence[Record | Exception]) -> None:
    for slot, result in zip(batch, results, strict=True):
        if not slot.result.done():
            slot.result.set_result(result)
