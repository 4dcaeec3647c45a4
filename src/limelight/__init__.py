"""Build, check, train and see Transformers."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

__version__ = version("limelight")


def __getattr__(name: str) -> Any:
    """`limelight.nn` and `limelight.train` work after `import limelight`, which does not wait for torch."""
    if name in ("bridge", "check", "nn", "view"):
        return import_module(f"limelight.{name}")
    if name in ("open_run", "train"):
        return getattr(import_module("limelight.experiment"), name)
    if name == "adaptive_spinning":
        return import_module("limelight.openmp").adaptive_spinning
    raise AttributeError(f"module 'limelight' has no attribute {name!r}")
