"""Someone's file, checked in a process of its own with limits on time and memory.

This keeps endless loops, crashes and exit() from being ours. It is no sandbox: the code runs with the
rights of whoever checks it, so that it can do whatever they can.
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

START = 60.0  # seconds that torch may take to be imported, on a busy machine; they are not theirs


@dataclass(frozen=True)
class Limits:
    """Seconds for each object, and for importing the file; bytes of memory."""

    seconds: float = 60.0
    memory: int = 6 << 30


def check_file(
    file: Path, name: str | None = None, kind: str | None = None, limits: Limits | None = None
) -> FileReport:
    """Everything in a file that looks like a known kind, or the one that is named."""
    limits = limits or Limits()
    reports: list[Report] = []
    skip: list[str] = []
    while True:
        trouble, hung = _run(file, name, kind, skip, limits, reports)
        if hung is None:
            return FileReport(file=str(file), reports=tuple(reports), trouble=trouble)
        reports.append(hung)
        skip = [report.name for report in reports]
        if name is not None:
            return FileReport(file=str(file), reports=tuple(reports))


def _run(
    file: Path, name: str | None, kind: str | None, skip: list[str], limits: Limits, reports: list[Report]
) -> tuple[str, Report | None]:
    """-> what is wrong with the file, and the object that the process did not survive"""
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
    under_way: tuple[str, str] | None = None
    trouble, late = "", False
    try:
        for line in _lines(reading, limits.seconds):
            if line is None:
                late = True
                break
            said = json.loads(line)
            if "begin" in said:
                under_way = said["begin"], said["kind"]
            elif "report" in said:
                reports.append(Report.model_validate_json(said["report"]))
                under_way = None
            elif "trouble" in said:
                trouble = "; ".join(filter(None, (trouble, said["trouble"])))
    finally:
        _end(process)
        os.close(reading)
    if under_way is not None:
        return trouble, _not_survived(*under_way, process.returncode, late, limits)
    if late:
        return (
            f"importing it takes longer than {limits.seconds:g} s: is there an endless loop, or training?",
            None,
        )
    if process.returncode and not trouble and not reports:
        return f"the process ended while importing it ({_ended(process.returncode)})", None
    return trouble, None


def _lines(reading: int, seconds: float) -> Iterator[str | None]:
    """Each line of the pipe; None where the next one does not come in time."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        deadline = time.monotonic() + seconds + START
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
    """With all that it has started; what has ended by itself has a moment to say how."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _not_survived(name: str, kind: str, code: int, late: bool, limits: Limits) -> Report:
    came = f"after {limits.seconds:g} s it had not" if late else f"it ended the process ({_ended(code)})"
    finding = Finding(
        promise="runs",
        says="a call comes to its end",
        verdict="FAIL",
        example="it is made and called on small inputs",
        expected="it returns",
        came=came,
        hint="a loop whose condition never changes; exit() or quit() inside a function",
    )
    return Report(name=name, kind=kind, findings=(finding,))


def _ended(code: int) -> str:
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def check_files(path: str, kind: str | None = None) -> Iterator[FileReport]:
    """Of FILE.py, FILE.py::NAME or a folder: a report for each file, in the order of their names."""
    name_of_file, _, name = path.partition("::")
    where = Path(name_of_file)
    if not where.exists():
        raise WrongInput(f"{where}: there is no such file or folder")
    if where.is_dir() and name:
        raise WrongInput(f"{path}: a name needs a file before it, and {where} is a folder")
    files = python_files(where)
    if not files:
        raise WrongInput(f"{where}: there is no Python file and no notebook in it")
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        yield from pool.map(lambda file: check_file(file, name or None, kind), files)


def python_files(path: Path) -> list[Path]:
    """The file itself, or every Python file and notebook of a folder, but hidden ones and environments."""
    if path.is_file():
        return [path]
    skipped = {"__pycache__", "node_modules", "site-packages", "venv"}
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix in (".py", NOTEBOOK)
        and not any(part.startswith(".") or part in skipped for part in file.relative_to(path).parts)
    )
