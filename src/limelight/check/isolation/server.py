"""A process that has imported torch once. Each file is checked in a fork of it.

    the command  ->  server (torch is imported)  ->  keeper (one per file)  ->  worker (runs the checked code)

The keeper runs no code of the checked file. It ends the worker, and everything that the worker has started,
when the worker has finished or when the command closes its end of the socket, also by being killed.
"""

import itertools
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from limelight.check.isolation.network import forbid_network, limit_processes
from limelight.systems import c_function

READY = b"."
GRACE_SECONDS = 0.3  # for a worker that has finished
COUNT_SECONDS = 0.25  # between two counts of the processes of a worker
# Options of prctl(2).
SIGNAL_IF_PARENT_ENDS = 1
ADOPT_ORPHANS = 36


def main() -> None:
    """Serve the socket of the first argument."""
    serve(socket.socket(fileno=int(sys.argv[1])))


def serve(commands: socket.socket) -> None:
    """Start a worker for each request that arrives, until the socket is closed."""
    sys.dont_write_bytecode = True  # no __pycache__ beside the checked files
    import torch

    import limelight.check.isolation.worker as worker

    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers that have ended leave nothing behind
    for count in itertools.count():
        try:
            commands.sendall(READY)
            request, descriptors, _, _ = socket.recv_fds(commands, 1 << 20, 2)
        except ConnectionError:
            return
        if not request:
            return
        if count == 1:  # of several files, some need the compiler: it is imported once
            import torch._dynamo
        if os.fork() == 0:
            commands.close()
            try:
                _keep(worker.main, json.loads(request), *descriptors)
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(run: Callable[[Any, int], None], request: Any, results: int, life: int) -> None:
    """Run the worker. When it ends, or `life` is closed, end all that is left, and send the exit code."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prctl(ADOPT_ORPHANS, 1)
    if not request["network"] and forbid_network():
        limit_processes(request["processes"])
    worker = os.fork()
    if worker == 0:
        _prctl(SIGNAL_IF_PARENT_ENDS, signal.SIGKILL)
        os.setsid()
        os.closerange(3, results)
        os.closerange(results + 1, 1 << 12)
        try:
            run(request, results)
        finally:
            os._exit(0)
    os.close(results)
    os.write(life, b"%d\n" % worker)
    code, begin = None, time.monotonic()
    while code is None and not select.select([life], [], [], 0.01)[0]:
        code = _exit_code(worker)
        if time.monotonic() > begin + COUNT_SECONDS:
            if len(_descendants(os.getpid())) > request["processes"]:
                break
            begin = time.monotonic()
    end = time.monotonic() + GRACE_SECONDS
    while code is None and time.monotonic() < end:  # it may be about to exit
        time.sleep(0.01)
        code = _exit_code(worker)
    _end_all(worker)
    if code is None:  # a worker that has not yet its own session has no group to kill
        os.kill(worker, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    with suppress(OSError):
        os.write(life, json.dumps(code).encode())
    os._exit(0)


def _exit_code(worker: int) -> int | None:
    """The exit code of the worker, negative for a signal; None while it runs."""
    with suppress(ChildProcessError):
        pid, status = os.waitpid(worker, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None
    return None


def _end_all(worker: int, seconds: float = 2.0) -> None:
    """Kill the worker and all that it has started, also in other sessions where /proc shows it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)
    end = time.monotonic() + seconds
    while (others := _descendants(os.getpid()) - {worker}) and time.monotonic() < end:
        for pid in others:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def _descendants(root: int) -> set[int]:
    """All processes below this one; none if the system has no /proc."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            pid, rest = int(path.parent.name), path.read_text("utf-8").rpartition(")")[2].split()
            parents[pid] = int(rest[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def _prctl(option: int, value: int) -> None:
    prctl = c_function("prctl")
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
