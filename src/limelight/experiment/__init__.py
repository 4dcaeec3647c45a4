"""The whole flow: seed -> task -> model -> Trainer -> run folder."""

from limelight.experiment.config import Experiment, experiment, recipes
from limelight.experiment.flow import train
from limelight.experiment.run import Run, open_run

__all__ = ["Experiment", "Run", "experiment", "open_run", "recipes", "train"]
