"""What Linux, macOS and Windows do differently with files, locks and the C library.

The optional modules of Python (`fcntl`, `msvcrt`) are imported when they are needed, and may be missing.
"""

import ctypes
import os
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any

# Windows neither renames nor removes an open file, and cannot open a folder to sync it.
WINDOWS = os.name == "nt"
# A lock of Windows makes the locked byte unreadable for others: it is one that no locked file has.
LOCKED_BYTE = 2**31 - 2
NO_LOCKS = "this system cannot lock files: do not let two processes write to the same folder"


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file; False if another process has locked it. It never waits.

    The system releases the lock when the file is closed or the process ends, even if it is killed. Without
    locks, this is always True, with a warning.
    """
    flock, windows = optional_module("fcntl"), optional_module("msvcrt")
    try:
        if flock:
            flock.flock(file, flock.LOCK_EX | flock.LOCK_NB)
        elif windows:
            _lock_byte(windows, file.fileno())
        else:
            warnings.warn(NO_LOCKS, stacklevel=2)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock_byte(windows: Any, descriptor: int) -> None:
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)  # the lock begins at the position of the file
    try:
        windows.locking(descriptor, windows.LK_NBLCK, 1)
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)


def is_named(file: IO[Any], path: Path) -> bool:
    """Whether the open file still has this name; False if it was renamed, removed or replaced."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def close_to_rename(file: IO[Any]) -> None:
    """Close a file that will be renamed or removed, if this system needs it; this releases its lock."""
    if WINDOWS:
        file.close()


def can_open_folders() -> bool:
    """Whether a folder can be opened like a file, to sync it to the disk."""
    return not WINDOWS


def optional_module(name: str) -> Any | None:
    """A module of Python that not every system has; None if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        return None


def c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library; None if this system has no such function."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # Windows cannot open the program itself as a library
        return None
