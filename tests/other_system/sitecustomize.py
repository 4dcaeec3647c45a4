"""Makes Python on Linux behave like Python on Windows, in each process with this folder in PYTHONPATH.

Python imports this file when it starts. What Windows does not have is missing, and what it refuses raises the
same error. Some of this applies to the code of limelight only: Python itself and torch are those of Linux,
and need it.
"""

import builtins
import ctypes
import fcntl
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
MISSING: dict[Any, tuple[str, ...]] = {
    os: ("fork", "forkpty", "getgid", "getuid", "killpg", "setsid", "statvfs", "sysconf"),
    signal: ("ITIMER_PROF", "SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPROF", "setitimer"),
    socket: ("recv_fds", "send_fds"),
}


def is_called_by_limelight(depth: int = 2) -> bool:
    return (sys._getframe(depth).f_globals.get("__package__") or "").split(".")[0] == "limelight"


class Msvcrt:
    """The locks of Windows, made of those of Linux."""

    LK_NBLCK = 2

    @staticmethod
    def locking(descriptor: int, mode: int, size: int) -> None:
        begin = os.lseek(descriptor, 0, os.SEEK_CUR)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, size, begin)


def hide(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that imports a module; limelight gets `msvcrt` and none of `MODULES`."""

    def hidden(name: str, *arguments: Any, **named: Any) -> Any:
        if name in MODULES and is_called_by_limelight():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name == "msvcrt" and is_called_by_limelight():
            return Msvcrt
        return function(name, *arguments, **named)

    return hidden


def refuse_open_files(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that renames or removes a path; it refuses one that this process has open."""

    def refusing(path: Any, *arguments: Any, **named: Any) -> Any:
        for place in (path, *arguments) if not named else ():
            for entry in os.scandir("/proc/self/fd"):
                if os.path.realpath(entry.path).startswith(os.path.realpath(place)):
                    raise PermissionError(13, "the file is open", str(place))
        if function is rename and os.path.exists(arguments[0]):
            raise FileExistsError(17, "the file exists", str(arguments[0]))
        return function(path, *arguments, **named)

    return refusing


def open_file(path: Any, *arguments: Any, **named: Any) -> int:
    if is_called_by_limelight() and os.path.isdir(path):
        raise PermissionError(13, "a folder cannot be opened", str(path))
    return real_open(path, *arguments, **named)


class Library(ctypes.CDLL):
    def __init__(self, name: str | None, *arguments: Any, **named: Any) -> None:
        if name is None:
            raise TypeError("the name of a library is a string")
        super().__init__(name, *arguments, **named)


def start(self: Any, *arguments: Any, pass_fds: Any = (), **named: Any) -> None:
    if pass_fds:
        raise ValueError("pass_fds not supported on Windows.")
    real_start(self, *arguments, **named)


def wait_for_sockets(*arguments: Any) -> Any:
    if any(isinstance(one, int) for group in arguments[:3] for one in group):
        raise OSError("an operation was attempted on something that is not a socket")
    return real_select(*arguments)


rename, real_open, real_start, real_select = os.rename, os.open, subprocess.Popen.__init__, select.select
kill = signal.SIGKILL
for name in ("rename", "replace", "remove", "unlink"):
    setattr(os, name, refuse_open_files(getattr(os, name)))
for module, names in MISSING.items():
    for name in names:
        delattr(module, name)
REPLACED: list[tuple[Any, str, Any]] = [
    (importlib, "import_module", hide(importlib.import_module)),
    (builtins, "__import__", hide(builtins.__import__)),
    (os, "open", open_file),
    (ctypes, "CDLL", Library),
    (select, "select", wait_for_sockets),
    (subprocess.Popen, "__init__", start),
    (subprocess.Popen, "kill", lambda self: self.send_signal(kill)),
]
for place, name, function in REPLACED:
    setattr(place, name, function)
# With PYTHONWARNDEFAULTENCODING=1: on Windows, the default encoding of files is not UTF-8.
warnings.simplefilter("ignore", EncodingWarning)
warnings.filterwarnings("error", category=EncodingWarning, module=r"limelight\.")

import limelight.systems  # noqa: E402

limelight.systems.WINDOWS = True
