"""Checks of paths before they are opened."""

import os
from pathlib import Path

from limelight.errors import WrongInput


def check_regular(path: Path) -> None:
    """Raise `WrongInput` for devices, pipes and sockets, which may never end. Missing files pass."""
    # Not Path.exists, which raises an error if a name is too long.
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise WrongInput(f"{path}: not a regular file; devices and pipes are not read")
