"""The connection to the server process and its workers: they are started, and ended with all they started."""

import atexit
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from limelight.check.isolation.new_process import ENVIRONMENT, START_SECONDS, NewProcess
from limelight.errors import Stopped

# Windows has no fork, and on macOS the libraries of the system may crash in a fork.
FORKS = sys.platform == "linux" and hasattr(os, "fork")


@dataclass
class Worker:
    """The parent's ends of the two channels of one worker, which is a fork of the server."""

    results: int  # a pipe
    life: socket.socket  # closing it ends the worker; the keeper sends the process id and the exit code

    @cached_property
    def pid(self) -> int:
        """The process id of the worker; 0 if it is unknown."""
        self.life.settimeout(5.0)
        sent = b""
        with suppress(OSError):
            while not sent.endswith(b"\n") and (byte := self.life.recv(1)):
                sent += byte
        return int(sent) if sent.strip().isdigit() else 0

    def read(self, seconds: float) -> bytes | None:
        """Some bytes of the results; none at their end, None if nothing arrives in this time."""
        if not select.select([self.results], [], [], seconds)[0]:
            return None
        return os.read(self.results, 1 << 16)

    def cpu_seconds(self) -> float:
        """The CPU time of the worker so far; infinite if it is unknown."""
        try:
            times = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:15]
            return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            return math.inf

    def stop(self) -> None:
        """Tell the keeper to end the worker and all that it has started."""
        with suppress(OSError):
            self.life.shutdown(socket.SHUT_WR)

    def end(self) -> int:
        """Stop the worker; returns its exit code."""
        self.stop()
        code = b""
        with suppress(OSError):
            code = self.life.recv(100) if self.pid else b""  # the process id is sent first
        self.life.close()
        os.close(self.results)
        return int(code) if code.lstrip(b"-").isdigit() else -int(signal.SIGKILL)


def launch(descriptor: int) -> subprocess.Popen[bytes]:
    """Start the process of the server, which serves this socket."""
    return subprocess.Popen(
        # -P: the current folder is not searched for modules.
        [sys.executable, "-P", "-m", "limelight.check.isolation.server", str(descriptor)],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
        env=os.environ | ENVIRONMENT,
    )


class Server:
    """Starts a worker for each file: a fork of a process that has imported torch, or a new process.

    The process that is forked is started when it is first needed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._workers: list[Worker | NewProcess] = []
        self._is_closed = False

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called: workers that were running have been ended before they were done."""
        return self._is_closed

    def start(self, request: dict[str, Any]) -> Worker | NewProcess:
        """Start a worker for this request."""
        self._check_open()
        worker = self._fork(request) if FORKS else NewProcess(request)
        self._workers.append(worker)
        if self._is_closed:  # while the worker was starting
            worker.stop()
        return worker

    def _fork(self, request: dict[str, Any]) -> Worker:
        reading, writing = os.pipe()
        ours, theirs = socket.socketpair()
        try:
            with self._lock:
                connection = self._socket or self._begin()
                if connection.recv(1) == b"":
                    raise Stopped("the process that checks files has ended")
                socket.send_fds(connection, [json.dumps(request).encode()], [writing, theirs.fileno()])
        except BaseException:
            os.close(reading)
            ours.close()
            raise
        finally:
            os.close(writing)
            theirs.close()
        return Worker(reading, ours)

    def end(self, worker: Worker | NewProcess) -> int:
        """End a worker; returns its exit code."""
        self._workers.remove(worker)
        return worker.end()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Stopped("the check has been stopped")

    def _begin(self) -> socket.socket:
        self._check_open()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = launch(theirs.fileno())
        except BaseException:
            ours.close()
            raise
        ours.settimeout(START_SECONDS)
        atexit.register(self.close)
        self._socket = ours
        return ours

    def close(self) -> None:
        """End the server, and the workers that are still running."""
        self._is_closed = True
        for worker in list(self._workers):
            worker.stop()
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
        self._socket = self._process = None
