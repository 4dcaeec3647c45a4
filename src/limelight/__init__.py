"""Build, check, train and see Transformers."""

from importlib import import_module
from importlib.metadata import version
from types import ModuleType

__version__ = version("limelight")


def __getattr__(name: str) -> ModuleType:
    """`limelight.nn` works after `import limelight` alone, which does not wait for torch."""
    if name in ("bridge", "nn", "view"):
        return import_module(f"limelight.{name}")
    raise AttributeError(f"module 'limelight' has no attribute {name!r}")
