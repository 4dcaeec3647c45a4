"""Build, check, train and see Transformers."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limelight import bridge, check, nn, plugin, view
    from limelight.experiment import compare, import_model, open_run, sweep, train
    from limelight.openmp import adaptive_spinning
    from limelight.view.see import see

__all__ = [
    "__version__",
    "adaptive_spinning",
    "bridge",
    "check",
    "compare",
    "import_model",
    "nn",
    "open_run",
    "plugin",
    "see",
    "sweep",
    "train",
    "view",
]

__version__ = version("limelight")

_HOMES = {
    "adaptive_spinning": "limelight.openmp",
    "compare": "limelight.experiment",
    "import_model": "limelight.experiment",
    "open_run": "limelight.experiment",
    "see": "limelight.view.see",
    "sweep": "limelight.experiment",
    "train": "limelight.experiment",
}

if not TYPE_CHECKING:  # for a type checker, it would make every name valid

    def __getattr__(name: str) -> Any:
        """Import what is asked for: `import limelight` alone does not wait for torch."""
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if name in __all__:
            return import_module(f"limelight.{name}")
        raise AttributeError(f"module 'limelight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
