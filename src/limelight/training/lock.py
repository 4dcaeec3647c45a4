"""One writer per run folder."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from limelight.errors import WrongInput


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process. The lock goes with the process, even one that is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise WrongInput(
                f"{folder} is being written by {holder}; wait for it, or choose another --out"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
