"""Everything that a task of one's own needs, in one place: see `examples/own_task.py`."""

from limelight.config import Config
from limelight.data.batching import Batch, Examples
from limelight.data.dataset import Dataset, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.text.symbols import Answers, Symbols, Vectors
from limelight.errors import WrongInput
from limelight.models.classifier import ClassifierConfig
from limelight.models.config import ModelConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.sizes import Sizes
from limelight.randomness import generator
from limelight.tasks.metrics import Judgement
from limelight.tasks.registry import register
from limelight.tasks.sequence.shared import SequenceTask, SequenceTaskConfig
from limelight.tasks.task import Answer, Example, Goal, Input, Scores, Task, TaskConfig
from limelight.view.capture import capture
from limelight.view.record import Record

__all__ = [
    "Answer",
    "Answers",
    "Batch",
    "ClassifierConfig",
    "Config",
    "Dataset",
    "Example",
    "Examples",
    "Goal",
    "Input",
    "Judgement",
    "LabellerConfig",
    "ModelConfig",
    "Ragged",
    "Record",
    "Scores",
    "SequenceData",
    "SequenceTask",
    "SequenceTaskConfig",
    "Sizes",
    "Symbols",
    "Task",
    "TaskConfig",
    "Vectors",
    "WrongInput",
    "capture",
    "generator",
    "register",
]
