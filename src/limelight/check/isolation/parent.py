"""Checks a file in a separate process with limits on time and memory.

Endless loops, crashes and exit() of the checked code do not affect this process. It is no sandbox: the code
runs with the rights of the user and can do whatever the user can.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from limelight.check.isolation.notebook import NOTEBOOK
from limelight.check.report import FileReport, Finding, Report
from limelight.errors import WrongInput

START_SECONDS = 60.0  # for importing torch on a busy machine; not counted as time of the checked code


@dataclass(frozen=True)
class Limits:
    """Limits for the process that runs the checked code."""

    seconds: float = 60.0  # for each object, and for importing the file
    memory: int = 6 << 30  # bytes


def check_file(
    file: Path, name: str | None = None, kind: str | None = None, limits: Limits | None = None
) -> FileReport:
    """Check all objects of a known kind in a file, or the one with this name and the objects that it uses."""
    limits = limits or Limits()
    reports: list[Report] = []
    skip: list[str] = []
    while True:
        trouble, killed = _run(file, name, kind, skip, limits, reports)
        if killed is None:
            return FileReport(file=str(file), reports=tuple(reports), trouble=trouble)
        reports.append(killed)
        skip = [report.name for report in reports]
        if name is not None:
            return FileReport(file=str(file), reports=tuple(reports))


def _run(
    file: Path, name: str | None, kind: str | None, skip: list[str], limits: Limits, reports: list[Report]
) -> tuple[str, Report | None]:
    """Run the process once: the trouble with the file, and the report of an object that ended the process."""
    reading, writing = os.pipe()
    request = {"file": str(file.resolve()), "name": name, "kind": kind, "skip": skip, "pipe": writing}
    command = [
        sys.executable,
        "-m",
        "limelight.check.isolation.worker",
        json.dumps(request | {"memory": limits.memory}),
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[writing],
        start_new_session=True,
        cwd=file.resolve().parent,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    os.close(writing)
    current: tuple[str, str] | None = None  # name and kind of the object that is checked
    trouble, timed_out = "", False
    try:
        for line in _lines(reading, limits.seconds):
            if line is None:
                timed_out = True
                break
            message = json.loads(line)
            if "begin" in message:
                current = message["begin"], message["kind"]
            elif "report" in message:
                reports.append(Report.model_validate_json(message["report"]))
                current = None
            elif "trouble" in message:
                trouble = "; ".join(filter(None, (trouble, message["trouble"])))
    finally:
        _end(process)
        os.close(reading)
    if current is not None:
        return trouble, _did_not_return(*current, process.returncode, timed_out, limits)
    if timed_out:
        seconds = f"importing it takes longer than {limits.seconds:g} s"
        return f"{seconds}: does it contain an endless loop, or training?", None
    if process.returncode and not trouble and not reports:
        return f"the process ended while importing it ({_exit_reason(process.returncode)})", None
    return trouble, None


def _lines(reading: int, seconds: float) -> Iterator[str | None]:
    """The lines of the pipe; None if the next one does not arrive in time."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        deadline = time.monotonic() + seconds + START_SECONDS
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                yield None
                return
            piece = os.read(reading, 1 << 16)
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line.decode()
                deadline = time.monotonic() + seconds


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process and all that it has started; if it is about to exit, wait for its exit code."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _did_not_return(name: str, kind: str, code: int, timed_out: bool, limits: Limits) -> Report:
    ended = f"it ended the process ({_exit_reason(code)})"
    finding = Finding(
        promise="runs",
        statement="a call returns",
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


def check_files(path: str, kind: str | None = None) -> Iterator[FileReport]:
    """Check FILE.py, FILE.py::NAME or all files of a folder: one report per file, ordered by name."""
    name_of_file, _, name = path.partition("::")
    where = Path(name_of_file)
    if not where.exists():
        raise WrongInput(f"{where}: there is no such file or folder")
    if where.is_dir() and name:
        raise WrongInput(f"{path}: ::NAME needs a file, and {where} is a folder")
    files = python_files(where)
    if not files:
        raise WrongInput(f"{where}: it contains no Python file and no notebook")
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        yield from pool.map(lambda file: check_file(file, name or None, kind), files)


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
