"""A command of limelight in a process of its own.

Each process is a fork of a server that has imported torch: the import takes longer than most commands.
Arguments, streams, exit code and everything after the import are those of `limelight` in a shell. Tests of
the start itself (locale, closed streams, pipes) use `python -m limelight`.
"""

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

from limelight.__main__ import main

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["limelight.__main__", "limelight.experiment.run", "matplotlib.pyplot"])
_READ, _WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT


def command(*arguments: str, stdin: str = "") -> CompletedProcess[str]:
    """Run `limelight ARGUMENTS` with the text `stdin`; returns its exit code and what it printed."""
    return _result(None, arguments, stdin)


def python(code: str, *arguments: str) -> CompletedProcess[str]:
    """Run `python -c CODE ARGUMENTS`."""
    return _result(code, arguments)


def _result(code: str | None, arguments: tuple[str, ...], stdin: str = "") -> CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin.encode())
        process = _FORKS.Process(target=_run, args=(code, arguments, streams, Path.cwd(), dict(os.environ)))
        process.start()
        process.join()
        assert process.exitcode is not None
        output, errors = (stream.read_bytes().decode() for stream in streams[1:])
    return CompletedProcess(arguments, process.exitcode, output, errors)


def _run(
    code: str | None,
    arguments: tuple[str, ...],
    streams: list[Path],
    folder: Path,
    environment: dict[str, str],
) -> None:
    for number, (stream, flags) in enumerate(zip(streams, (_READ, _WRITE, _WRITE), strict=True)):
        os.dup2(os.open(stream, flags), number)
    sys.stdin = os.fdopen(0, newline="\n")  # multiprocessing has replaced it; as the interpreter opens it
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if code is not None:
        sys.argv[1:] = arguments
        exec(code, {"__name__": "__main__"})
        return
    main(list(arguments))
