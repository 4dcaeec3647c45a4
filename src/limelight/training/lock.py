"""One writer per run folder."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from limelight.errors import Stopped, WrongInput

LOCK = "lock"


class Lock:
    """A run folder that this process holds."""

    def __init__(self, folder: Path, file: IO[str]) -> None:
        self.folder, self._file = folder, file

    @property
    def holds(self) -> bool:
        """Whether the locked file is still the one in the folder, and not one that was made anew."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), (self.folder / LOCK).stat())
        except FileNotFoundError:
            return False

    def check(self) -> None:
        """Raise `Stopped` where the folder is no longer the one that was locked."""
        if not self.holds:
            raise Stopped(
                f"{self.folder} was removed or replaced while this run was writing to it: the run ends here"
            )


@contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Hold the folder for this process. The lock goes with the process, even one that is killed.

    Where nothing was written, nothing is left behind: neither the lock nor a folder that was made for it.
    """
    made = not folder.exists()
    before = set() if made else set(folder.iterdir())
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("a+") as file:
            _acquire(folder, file)
            lock = Lock(folder, file)
            if not lock.holds:  # removed by its last holder after it was opened here
                continue
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            try:
                yield lock
            finally:
                if lock.holds and set(folder.iterdir()) - before == {folder / LOCK}:
                    (folder / LOCK).unlink()
                    if made:
                        with suppress(OSError):  # another process has come meanwhile
                            folder.rmdir()
            return


def _acquire(folder: Path, file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        raise WrongInput(
            f"{folder} is being written by {holder}; wait for it, or choose another --out"
        ) from None
