"""Durable, atomic file operations for run folders. All go through `perform`, where tests inject failures."""

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from limelight.systems import can_open_folders

UNFINISHED = ".tmp-"
BINARY = getattr(os, "O_BINARY", 0)  # without it, Windows changes line ends


def perform(operation: Callable[..., Any], *arguments: Any) -> Any:
    """Call one operation of the file system; tests replace this function to let the k-th call fail."""
    return operation(*arguments)


def write(path: Path, content: bytes) -> None:
    """Create a file; its content is on the disk when this returns."""
    file = perform(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[perform(os.write, file, rest) :]
        perform(os.fsync, file)
    finally:
        os.close(file)


def commit(folder: Path, files: dict[str, bytes]) -> None:
    """Create `folder` with these files, in this order. It appears complete or not at all."""
    unfinished = new_name(folder.parent)
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
    """Write a file atomically; an older file of this name is replaced."""
    unfinished = new_name(path.parent)
    try:
        write(unfinished, content)
        perform(os.replace, unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def rename(folder: Path, other: Path) -> None:
    """Rename a folder durably."""
    perform(os.rename, folder, other)
    sync(other.parent)


def remove(folder: Path) -> None:
    """Remove a folder. It is renamed first, so that a partly removed one is never taken for complete."""
    unfinished = new_name(folder.parent)
    perform(os.rename, folder, unfinished)
    perform(shutil.rmtree, unfinished)


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files that a killed process left."""
    for path in folder.glob(f"{UNFINISHED}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """Write a folder to the disk: a new name is durable only after this. Windows has no such operation."""
    if not can_open_folders():
        return
    file = perform(os.open, folder, os.O_RDONLY)
    try:
        perform(os.fsync, file)
    finally:
        os.close(file)


def new_name(folder: Path) -> Path:
    """A name for a file or folder that is not complete yet."""
    return folder / f"{UNFINISHED}{secrets.token_hex(8)}"
