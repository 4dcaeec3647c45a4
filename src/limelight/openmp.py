"""Less busy-waiting by torch's threads on a machine that other programs use, too.

The threads of one operation wait for the slowest of them. By default they spin: they keep their core busy
until it arrives, which is fastest as long as each thread has a core of its own. When another program takes
one of the cores, the spinning threads prevent the late one from running, and training takes 4 to 50 times as
long.

libgomp, the OpenMP library of torch on Linux, spins much less once it has started more threads than there are
cores, because a spinning thread then prevents a working one from running. It counts its own threads only.
`adaptive_spinning` measures how long the threads of this process wait for a core; while that is long, it
keeps a second team of threads alive. These threads only sleep, but libgomp counts them.

The number of threads that compute does not change, and therefore no result changes.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

INTERVAL = 0.05  # seconds between two measurements
SHARE = 0.1  # of the interval spent waiting for a core, summed over the threads; 0.01 on an idle machine


@contextmanager
def adaptive_spinning() -> Iterator[None]:
    """Context in which torch's threads spin only while each of them has a core of its own.

        with limelight.adaptive_spinning():
            model(inputs)

    The commands, `limelight.train` and the methods of a `Run` use it already. It has no effect with one
    thread or on systems without the scheduler statistics of Linux.
    """
    if _Observer.active or _has_one_thread() or _waiting_time() is None:
        yield
        return
    observer = _Observer()
    _Observer.active = True
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        _Observer.active = False


def _has_one_thread() -> bool:
    """Whether torch computes with one thread, for which there is nothing to do."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.get_num_threads() == 1


class _Observer(threading.Thread):
    """Measures how long this process waits for cores, and starts or stops the second team accordingly."""

    active = False  # one per process is enough

    def __init__(self) -> None:
        super().__init__(name="limelight-observer", daemon=True)
        self._stopped = threading.Event()
        self._team: _Team | None = None

    def run(self) -> None:
        before = _waiting_time() or 0.0
        while not self._stopped.wait(INTERVAL):
            now = _waiting_time() or 0.0
            self._share_cores(now - before > SHARE * INTERVAL)
            before = now
        self._share_cores(False)

    def _share_cores(self, shared: bool) -> None:
        if shared and self._team is None and "torch" in sys.modules:
            self._team = _Team()
            self._team.start()
        elif not shared and self._team is not None:
            self._team.stop()
            self._team = None

    def stop(self) -> None:
        self._stopped.set()
        self.join()


class _Team(threading.Thread):
    """A thread that makes OpenMP start a second team of threads, and keeps it alive until `stop`."""

    def __init__(self) -> None:
        super().__init__(name="limelight-team", daemon=True)
        self._stopped = threading.Event()

    def run(self) -> None:
        import torch

        if torch.get_num_threads() > 1:
            torch.zeros(1_000_000)  # large enough to be computed by several threads
        self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _waiting_time() -> float | None:
    """Seconds that the threads of this process were ready to run but had no core; None if unknown."""
    total = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended in the meantime
                total += int(Path(f"/proc/self/task/{thread}/schedstat").read_text("utf-8").split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return total / 1e9
