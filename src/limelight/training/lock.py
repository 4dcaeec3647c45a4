"""A lock on a run folder, so that only one process writes to it."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from limelight.errors import Stopped, WrongInput
from limelight.systems import close_to_rename, is_named, try_lock

LOCK = "lock"


class Lock:
    """The lock of this process on a run folder."""

    def __init__(self, folder: Path, file: IO[str]) -> None:
        self.folder, self._file = folder, file

    @property
    def holds(self) -> bool:
        """Whether the locked file still exists in the folder; False if it was removed or replaced."""
        return is_named(self._file, self.folder / LOCK)

    def check(self) -> None:
        """Raise `Stopped` if the folder was removed or replaced after it was locked."""
        if not self.holds:
            raise Stopped(
                f"{self.folder} was removed or replaced while this run was writing to it; the run stops here"
            )


@contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Create the folder if necessary and lock it; raise `WrongInput` if another process has locked it.

    The system releases the lock when the process ends, even if it is killed. If nothing was written into the
    folder, the lock file is removed at the end, and so is the folder if it was created here.
    """
    made = not folder.exists()
    before = set() if made else set(folder.iterdir())
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("a+", encoding="utf-8") as file:
            _acquire(folder, file)
            lock = Lock(folder, file)
            if not lock.holds:  # the previous owner removed the file after it was opened here
                continue
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            try:
                yield lock
            finally:
                if lock.holds and set(folder.iterdir()) - before == {folder / LOCK}:
                    close_to_rename(file)
                    with suppress(OSError):  # another process uses it by now
                        (folder / LOCK).unlink()
                        if made:
                            folder.rmdir()
            return


def _acquire(folder: Path, file: IO[str]) -> None:
    if not try_lock(file):
        file.seek(0)
        holder = file.read().strip() or "another process"
        raise WrongInput(
            f"{folder} is in use by {holder}; wait until it has finished, or choose another --out"
        )
