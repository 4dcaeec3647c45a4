"""A command of limelight in a process of its own.

Each process is a fork of a server that has imported torch: the import takes longer than most commands.
Arguments, streams, exit code and everything after the import are those of `limelight` in a shell. Tests of
the start itself (locale, closed streams, pipes) use `python -m limelight`. The server of `check` is a fork,
too; tests that call `check_file`, or `python -m limelight`, start it as users do.
"""

import multiprocessing
import os
import socket
import sys
import tempfile
from multiprocessing import forkserver
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from limelight.__main__ import main
from limelight.check.isolation import connection, server

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "limelight.__main__",
        "limelight.experiment.run",
        "limelight.check.isolation.worker",
        "matplotlib.pyplot",
        "torch._dynamo",
    ]
)
_READ, _WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT


def command(*arguments: str, stdin: str = "") -> CompletedProcess[str]:
    """Run `limelight ARGUMENTS` with the text `stdin`; returns its exit code and what it printed."""
    return _result(None, arguments, stdin)


def python(code: str, *arguments: str) -> CompletedProcess[str]:
    """Run `python -c CODE ARGUMENTS`."""
    return _result(code, arguments)


def _result(code: str | None, arguments: tuple[str, ...], stdin: str = "") -> CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")  # as in the server of `check`
        forkserver.ensure_running()
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
    connection.launch = _Fork  # type: ignore[assignment]
    main(list(arguments))


class _Fork:
    """The process of the server of `check`, without importing torch again."""

    def __init__(self, descriptor: int) -> None:
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.setsid()
                os.closerange(3, descriptor)
                os.closerange(descriptor + 1, 1 << 12)
                server.serve(socket.socket(fileno=descriptor))
            finally:
                os._exit(0)

    def wait(self) -> None:
        os.waitpid(self._pid, 0)
