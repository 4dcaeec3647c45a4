"""A new process for each file, on systems where a process that has imported torch cannot be forked safely.

The checked code gets the same inputs and the same verdicts as in a fork. Each process imports torch itself,
and fewer limits apply: see `NOT_LIMITED`.
"""

import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from limelight.errors import Stopped

START_SECONDS = 120.0  # for importing torch on a busy machine; not counted as time of the checked code
GRACE_SECONDS = 0.3  # for a worker that has finished
READY = b"."
# The order of sets is the same in each run.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
HAS_GROUPS = hasattr(os, "killpg")
NOT_LIMITED = "on this system, the memory, the network and the processes of the checked code are not limited"
if not HAS_GROUPS:
    NOT_LIMITED += "; processes that it starts are not ended"


class NewProcess:
    """The parent's side of one worker: it gets its request on stdin, and writes the results to stdout."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            # -P: the current folder is not searched for modules.
            [sys.executable, "-P", "-m", "limelight.check.isolation.new_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | ENVIRONMENT,
        )
        threading.Thread(target=self._collect, daemon=True).start()
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as stdin:
            stdin.write(json.dumps(request).encode())
        if self.read(START_SECONDS) != READY:
            self.end()
            raise Stopped("the process that checks a file could not be started")

    def _collect(self) -> None:
        """Read stdout in a thread: Windows cannot wait for a pipe with a time limit."""
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            piece = os.read(stdout.fileno(), len(READY))
            while piece:
                self._pieces.put(piece)
                piece = os.read(stdout.fileno(), 1 << 16)
        self._pieces.put(b"")

    def read(self, seconds: float) -> bytes | None:
        """Some bytes of the results; none at their end, None if nothing arrives in this time."""
        try:
            return self._pieces.get(timeout=seconds)
        except queue.Empty:
            return None

    def cpu_seconds(self) -> float:
        """The CPU time is unknown; the limits are times on the clock."""
        return math.inf

    def stop(self) -> None:
        """End the worker, and all that it has started if the system has process groups."""
        if HAS_GROUPS:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def end(self) -> int:
        """Stop the worker; returns its exit code."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        self.stop()
        return self._process.wait()


def main() -> None:
    """Run the worker in this process; its results are the only output."""
    sys.dont_write_bytecode = True  # no __pycache__ beside the checked files
    request = json.loads(sys.stdin.buffer.read())
    results = os.dup(sys.stdout.fileno())
    import torch

    import limelight.check.isolation.worker as worker

    torch.set_num_threads(1)
    os.write(results, READY)
    try:
        worker.main(request, results)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
