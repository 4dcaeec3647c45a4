"""Checks a file in processes of their own, with limits on time, memory and output.

Endless loops, crashes and exit() of the checked code do not affect this process. It is not a sandbox: the
code runs with the rights of the user and can do whatever the user can.
"""

import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from limelight.check.causes import mentioned_once
from limelight.check.isolation.connection import FORKS, Server, Worker
from limelight.check.isolation.new_process import NOT_LIMITED, NewProcess
from limelight.check.isolation.sources import NOTEBOOK
from limelight.check.report import RUNS, UNTRUSTED, FileReport, Finding, Report
from limelight.errors import WrongInput

PATIENCE = 4  # of a process that gets no CPU time on a busy machine, or that only waits


@dataclass(frozen=True)
class Limits:
    """Limits for the process that runs the checked code."""

    # CPU time for each object, and for loading the file: it does not depend on what else the machine does.
    seconds: float = 60.0
    file_seconds: float = 300.0  # for all objects of one file
    memory: int = 6 << 30  # bytes
    output: int = 16 << 20  # bytes of results
    processes: int = 64  # at the same time
    network: bool = True  # False: forbidden where the system can do so


def check_file(
    file: Path,
    name: str | None = None,
    kind: str | None = None,
    limits: Limits | None = None,
    server: Server | None = None,
) -> FileReport:
    """Check all objects of a known kind in a file, or the one with this name and the objects that it uses."""
    limits, server = limits or Limits(), server or _SERVER
    found = _Results(file, limits)
    while True:
        skip = [report.name for report in found.reports]
        request = {"file": str(file.resolve()), "name": name, "kind": kind, "skip": skip}
        found.troubles, found.notes = [], []
        given = {"memory": limits.memory, "processes": limits.processes, "network": limits.network}
        killed = _run(request | given, found, server)
        if killed is not None:
            found.reports.append(killed)
        if killed is None or name is not None or found.is_late:
            return found.report()


@dataclass
class _Results:
    """What has arrived from the worker of one file."""

    file: Path
    limits: Limits
    reports: list[Report] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    current: tuple[str, str] | None = None  # name and kind of the object that is checked
    is_done: bool = False
    begin: float = field(default_factory=time.monotonic)

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.begin + self.limits.file_seconds

    def add(self, line: bytes, token: str) -> None:
        """Read one message; ValueError if the worker cannot have sent it."""
        message = json.loads(line)
        if not isinstance(message, dict) or message.get("token") != token:
            raise ValueError("no message of the worker")
        match message:
            case {"begin": str(name), "kind": str(kind)}:
                self.current = name, kind
            case {"report": str(report)}:
                self.reports.append(Report.model_validate_json(report))
                if len({one.name for one in self.reports}) < len(self.reports):
                    raise ValueError("two reports about one object")
                self.current = None
            case {"trouble": str(trouble)}:
                self.troubles.append(trouble)
            case {"note": str(note)}:
                self.notes.append(note)
            case {"done": True}:
                self.is_done = True
            case _:
                raise ValueError("unknown message")

    def report(self) -> FileReport:
        trouble = "; ".join(self.troubles)
        return FileReport(
            file=str(self.file),
            reports=mentioned_once(self.reports),
            trouble=trouble,
            notes=(*self.notes, *(() if FORKS else [NOT_LIMITED])),
        )


def _run(request: dict[str, Any], found: _Results, server: Server) -> Report | None:
    """Run the worker once; returns the report about an object that ended it."""
    limits = found.limits
    token = secrets.token_hex(16)
    found.current, found.is_done, timed_out = None, False, False
    with tempfile.TemporaryDirectory(prefix="limelight-", ignore_cleanup_errors=True) as folder:
        worker = server.start(request | {"token": token, "folder": folder})
        try:
            for line in _lines(worker, found):
                if line is None:
                    timed_out = True
                    break
                found.add(line, token)
        except (ValueError, ValidationError, RecursionError):
            found.troubles.append(f"the checked code wrote to the channel of the results: {UNTRUSTED}")
            found.current, found.is_done = None, True
        finally:
            code = server.end(worker)
    if found.current is not None:
        name, kind = found.current
        return _did_not_return(name, kind, code, timed_out, limits)
    if timed_out:
        seconds = f"loading it takes longer than {limits.seconds:g} s"
        found.troubles.append(f"{seconds}: does it contain an endless loop, or training?")
    elif not found.is_done:
        ended = f"the process ended before the check was finished ({_exit_reason(code)})"
        found.troubles.append(f"{ended}: {UNTRUSTED}" if found.reports else ended)
    return None


def _lines(worker: Worker | NewProcess, found: _Results) -> Iterator[bytes | None]:
    """The lines of the results; None if the next one is late, ValueError if there are too many."""
    rest, size = b"", 0
    deadline = _Deadline(worker, found)
    while True:
        piece = worker.read(deadline.seconds())
        if piece is None:
            if deadline.is_over():
                yield None
                return
            continue
        if not piece:
            return
        size += len(piece)
        if size > found.limits.output:
            raise ValueError("too much output")
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if lines:
            deadline = _Deadline(worker, found)


class _Deadline:
    """When the next result is late: after some CPU time, or after a multiple of this time."""

    def __init__(self, worker: Worker | NewProcess, found: _Results) -> None:
        self._worker, self._limit = worker, found.limits.seconds
        now = time.monotonic()
        self._cpu_before, self._next = worker.cpu_seconds(), now + self._limit
        self._end = min(now + PATIENCE * self._limit, found.begin + found.limits.file_seconds)

    def seconds(self) -> float:
        """How long to wait before `is_over` is asked."""
        return max(0.0, min(self._next, self._end) - time.monotonic())

    def is_over(self) -> bool:
        """Whether the time is up; otherwise, `seconds` is what is left of the CPU time."""
        now, used = time.monotonic(), self._worker.cpu_seconds() - self._cpu_before
        self._next = now + max(0.05, self._limit - used)
        return now >= self._end or not used < self._limit


_SERVER = Server()  # of all calls of `check_file` in this process


def _did_not_return(name: str, kind: str, code: int, timed_out: bool, limits: Limits) -> Report:
    ended = f"it ended the process ({_exit_reason(code)})"
    finding = Finding(
        promise="runs",
        statement=RUNS,
        verdict="FAIL",
        example="it is constructed and called with small inputs",
        expected="it returns",
        got=f"it did not return within {limits.seconds:g} s" if timed_out else ended,
        hint="a loop does not end, or a function calls exit() or quit()",
    )
    return Report(name=name, kind=kind, findings=(finding,))


def _exit_reason(code: int) -> str:
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def check_files(paths: Sequence[str], kind: str | None = None) -> Iterator[FileReport]:
    """Check each of FILE.py, FILE.py::NAME or all files of a folder: one report per file, in order."""
    wanted = [one for path in paths for one in _files_of(path)]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool, Server() as server:
        yield from pool.map(lambda one: check_file(one[0], one[1], kind, server=server), wanted)


def _files_of(path: str) -> list[tuple[Path, str | None]]:
    """The files of an argument, ordered by name, and the name of the object that is checked, if any."""
    name_of_file, _, name = path.partition("::")
    where = Path(name_of_file)
    if not where.exists():
        raise WrongInput(f"{where}: there is no such file or folder")
    if where.is_file() and where.suffix not in (".py", NOTEBOOK):
        raise WrongInput(f"{where} is not a Python file (.py), a notebook (.ipynb) or a folder")
    if where.is_dir() and name:
        raise WrongInput(f"{path}: ::NAME needs a file, and {where} is a folder")
    files = python_files(where)
    if not files:
        raise WrongInput(f"{where}: the folder contains no Python file (.py) and no notebook (.ipynb)")
    return [(file, name or None) for file in files]


def python_files(path: Path) -> list[Path]:
    """The file itself, or all Python files and notebooks of a folder except hidden ones and environments."""
    if path.is_file():
        return [path]
    skipped = {"__pycache__", "node_modules", "site-packages", "venv"}
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix in (".py", NOTEBOOK)
        and not any(part.startswith(".") or part in skipped for part in file.relative_to(path).parts)
    )
