"""Experiments: from a recipe to a task, a model, a Trainer and a run folder."""

from limelight.experiment.compare import compare
from limelight.experiment.comparison import Comparison
from limelight.experiment.config import Experiment, experiment
from limelight.experiment.imports import import_model
from limelight.experiment.run import Run, open_run
from limelight.experiment.sweep import sweep
from limelight.experiment.train import train
from limelight.recipes import recipes

__all__ = [
    "Comparison",
    "Experiment",
    "Run",
    "compare",
    "experiment",
    "import_model",
    "open_run",
    "recipes",
    "sweep",
    "train",
]
