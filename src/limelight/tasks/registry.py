"""All tasks by kind. A plug-in adds its task with `register`."""

from functools import cache, reduce
from importlib.metadata import entry_points
from operator import or_
from typing import Annotated, Any, TypeVar

from pydantic import Field

from limelight.errors import WrongInput
from limelight.models.config import ModelConfig
from limelight.tasks.embed.task import EmbedConfig
from limelight.tasks.images.task import ImagesConfig
from limelight.tasks.language.task import LanguageConfig
from limelight.tasks.masked.task import MaskedConfig
from limelight.tasks.pairs.task import PairsConfig
from limelight.tasks.sequence.classify import ClassifyConfig
from limelight.tasks.sequence.label import LabelConfig
from limelight.tasks.tag.task import TagConfig
from limelight.tasks.task import TaskConfig
from limelight.tasks.translate.task import TranslateConfig

ENTRY_POINTS = "limelight.tasks"  # the entry point group in which installed packages list their tasks

C = TypeVar("C", bound=type[TaskConfig])


def _kind(config: type[TaskConfig] | type[ModelConfig]) -> str:
    return str(config.model_fields["kind"].default)


_tasks: dict[str, type[TaskConfig]] = {
    _kind(config): config
    for config in (
        LabelConfig,
        ClassifyConfig,
        TagConfig,
        PairsConfig,
        TranslateConfig,
        ImagesConfig,
        LanguageConfig,
        MaskedConfig,
        EmbedConfig,
    )
}


def register(config: C) -> C:
    """Make a task available to recipes under its kind. Also a class decorator."""
    kind = _kind(config)
    if kind in _tasks and _tasks[kind].__module__.startswith("limelight."):
        raise WrongInput(f"the kind {kind!r} of {config.__name__} is that of a built-in task; choose another")
    _tasks[kind] = config
    return config


@cache  # the files of all installed packages are read
def load_installed() -> None:
    """Register the tasks of installed packages, once per process."""
    for found in entry_points(group=ENTRY_POINTS):
        register(found.load())


def task_type() -> Any:
    """The union of all task configs, distinguished by `kind`."""
    return _union(list(_tasks.values()))


def model_type() -> Any:
    """The union of the configs of all models that a task can train, distinguished by `kind`."""
    models: dict[str, type[ModelConfig]] = {}
    for task in _tasks.values():
        models |= {_kind(model): model for model in task.models}
    return _union(list(models.values()))


def registered() -> tuple[type[TaskConfig], ...]:
    """The configs of all tasks."""
    return tuple(_tasks.values())


def _union(configs: list[Any]) -> Any:
    return Annotated[reduce(or_, configs), Field(discriminator="kind")]
