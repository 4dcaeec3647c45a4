"""Experiments: from a recipe to a task, a model, a Trainer and a run folder."""

from limelight.experiment.config import Experiment, experiment
from limelight.experiment.run import Run, open_run
from limelight.experiment.train import train
from limelight.recipes import recipes

__all__ = ["Experiment", "Run", "experiment", "open_run", "recipes", "train"]
