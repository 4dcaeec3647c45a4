"""Which paths are read at all."""

import os
from pathlib import Path

from limelight.errors import WrongInput


def check_regular(path: Path) -> None:
    """Refuse devices, pipes and sockets: they may have no end. A missing file is left to whoever opens it."""
    # Not Path.exists, which raises where a name is too long.
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise WrongInput(f"{path}: not a regular file; devices and pipes are not read")
