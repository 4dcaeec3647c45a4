"""Every operation on a run folder's files. All pass through `perform`, where tests make the k-th one fail."""

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

UNFINISHED = ".tmp-"


def perform(operation: Callable[..., Any], *arguments: Any) -> Any:
    return operation(*arguments)


def write(path: Path, content: bytes) -> None:
    """The whole content, on the disk when this returns."""
    file = perform(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[perform(os.write, file, rest) :]
        perform(os.fsync, file)
    finally:
        os.close(file)


def commit(folder: Path, files: dict[str, bytes]) -> None:
    """Make `folder` with these files, the last one last: it is there as a whole or not at all."""
    unfinished = _new_name(folder.parent)
    try:
        perform(os.makedirs, unfinished)
        for name, content in files.items():
            write(unfinished / name, content)
        perform(os.rename, unfinished, folder)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync(folder.parent)


def replace(path: Path, content: bytes) -> None:
    """Put a file in its place as a whole, over an older one."""
    unfinished = _new_name(path.parent)
    try:
        write(unfinished, content)
        perform(os.replace, unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def rename(folder: Path, other: Path) -> None:
    perform(os.rename, folder, other)
    sync(other.parent)


def remove(folder: Path) -> None:
    """Out of sight at once, then gone: a half-removed folder is never taken for a whole one."""
    unfinished = _new_name(folder.parent)
    perform(os.rename, folder, unfinished)
    perform(shutil.rmtree, unfinished)


def remove_unfinished(folder: Path) -> None:
    """What a process that was killed left behind."""
    for path in folder.glob(f"{UNFINISHED}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """A name is on the disk only when its folder is."""
    file = perform(os.open, folder, os.O_RDONLY)
    try:
        perform(os.fsync, file)
    finally:
        os.close(file)


def _new_name(folder: Path) -> Path:
    return folder / f"{UNFINISHED}{secrets.token_hex(8)}"
