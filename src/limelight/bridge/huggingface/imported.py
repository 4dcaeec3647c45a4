"""What is made of a folder of Hugging Face: settings, the state of a task, and weights with our names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limelight.config import read
from limelight.errors import WrongInput
from limelight.models.config import ModelConfig
from limelight.tasks.task import Task, TaskConfig

Names = Mapping[str, str]  # our name of a tensor -> theirs


@dataclass(frozen=True)
class Imported:
    """A pre-trained model, ready to become a run."""

    task: TaskConfig
    model: ModelConfig
    state: str  # of the task, as JSON
    weights: dict[str, Tensor]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The task and the model that a config asks for, and the names of its tensors."""

    task: type[TaskConfig]
    task_settings: Mapping[str, Any]
    model: type[ModelConfig]
    model_settings: Mapping[str, Any]
    state: Any  # a Config
    names: Names
    prepare: Callable[[dict[str, Tensor]], dict[str, Tensor]]
    unused: tuple[str, ...] = ()  # beginnings of names that this task does not need
    notes: tuple[str, ...] = ()


def carry_out(plan: Plan, weights: dict[str, Tensor], place: Path) -> Imported:
    """The model of a plan with its weights; a tensor that is missing or has another shape is refused."""
    task = read(plan.task, {"kind": plan.task.model_fields["kind"].default, **plan.task_settings})
    model = read(plan.model, {"kind": plan.model.model_fields["kind"].default, **plan.model_settings})
    state = plan.state.model_dump_json()
    expected = _shapes(model, task.restore(state))
    try:
        theirs = plan.prepare(weights)
    except (RuntimeError, IndexError, ValueError) as error:  # a tensor with other axes
        raise WrongInput(
            f"{place}: a tensor has another shape: {' '.join(str(error).split())[:200]}"
        ) from None
    ours = dict[str, Tensor]()
    for name, shape in expected.items():
        if name not in plan.names:
            raise WrongInput(f"{place}: nothing in this folder is {name}")
        source = plan.names[name]
        if source not in theirs:
            raise WrongInput(f"{place} has no tensor {source}")
        if tuple(theirs[source].shape) != shape:
            found = tuple(theirs[source].shape)
            raise WrongInput(f"{place}: {source} has shape {found}; allowed by config.json: {shape}")
        ours[name] = theirs[source].contiguous()
    used = {plan.names[name] for name in ours}
    left = [name for name in theirs if name not in used and not name.startswith(plan.unused)]
    notes = [*plan.notes, f"{sum(one.numel() for one in ours.values()):,} weights"]
    if left:
        more = f" and {len(left) - 5:,} more" if len(left) > 5 else ""
        notes.append(f"not used: {', '.join(left[:5])}{more}")
    return Imported(task, model, state, ours, tuple(notes))


def _shapes(model: ModelConfig, task: Task[Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a model, which is not built for that: a config may ask for any size."""
    with torch.device("meta"):
        built = model.build(task.sizes)
    tensors = built.state_dict(keep_vars=True)
    first = {id(tensor): name for name, tensor in reversed(tensors.items())}
    return {name: tuple(one.shape) for name, one in tensors.items() if first[id(one)] == name}


def linear_names(parts: Names, ours: str = "", theirs: str = "", *, bias: bool = True) -> dict[str, str]:
    """The names of weights and biases of these parts, after prefixes."""
    kinds = ("weight", "bias") if bias else ("weight",)
    return {
        f"{ours}{mine}.{kind}": f"{theirs}{other}.{kind}" for mine, other in parts.items() for kind in kinds
    }
