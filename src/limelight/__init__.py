"""Build, check, train and see Transformers."""

from importlib.metadata import version

__version__ = version("limelight")
