"""Build a model, if there is enough memory for it and for a training step."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from limelight.data.batching import Batch, epoch_batches, even_batches
from limelight.data.dataset import Dataset
from limelight.errors import WrongInput
from limelight.experiment.config import Experiment
from limelight.memory import check_memory
from limelight.models.config import ModelConfig
from limelight.models.sizes import Sizes
from limelight.nn.kernels.recompute import all_kept
from limelight.tasks.task import Task
from limelight.training.evaluate import BATCH

SMALLER = "make the model smaller"
COPIES = 5  # of each weight in training: the weight, its gradient, two moments, and a copy for checkpoints
SPARE = 1.5  # factor on the memory kept for the backward pass: gradients and temporary buffers


def build_model(config: ModelConfig, sizes: Sizes, *, copies: int = 1) -> nn.Module:
    """Build the model of a config; refused before its weights are initialised if memory is too small."""
    needed = 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        # Memory is reserved here; it is used when the weights are initialised.
        nonlocal needed
        needed += 0 if parameter is None else parameter.numel() * parameter.element_size()
        check_memory(needed * copies, SMALLER, so_far=True)

    hook = register_module_parameter_registration_hook(count)
    try:
        return config.build(sizes)
    except RuntimeError as error:
        wanted = re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", str(error))
        if wanted is None:
            raise
        check_memory(float(wanted[1]), SMALLER, so_far=True)
        raise WrongInput(f"{int(wanted[1]):,} bytes of memory could not be allocated; {SMALLER}") from None
    finally:
        hook.remove()


def check_step(
    wanted: Experiment, task: Task[Any], dataset: Dataset[Any], model: nn.Module, processes: int
) -> None:
    """Refuse a batch whose training step or evaluation needs more memory than is free.

    One pass with the longest example measures how much memory is kept for the backward pass. The estimate
    scales this to the batch with the most tokens.
    """
    lengths = dataset.lengths("train")
    with torch.random.fork_rng(devices=[]):
        longest_example = dataset.batch("train", lengths.argmax().unsqueeze(0))
        kept, largest = _kept_for_backward(model, task, longest_example)
    longest = max(1, int(lengths.max()))
    batches = epoch_batches(lengths, wanted.train.batch, wanted.seed, 0)
    pieces = wanted.train.accumulate * processes
    trained = max(1.0, _most_tokens(lengths, batches) / longest / pieces)
    lengths = dataset.lengths("validation")
    evaluated = _most_tokens(lengths, even_batches(lengths, BATCH)) / longest
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    needed = weights * COPIES + max(SPARE * kept * trained, 2.0 * largest * evaluated)
    check_memory(needed, f"{SMALLER}, or lower train.batch")


def _most_tokens(lengths: Tensor, batches: Iterable[Tensor]) -> int:
    """The number of tokens in the largest batch, padding included."""
    return max(len(index) * int(lengths[index].max()) for index in batches)


def _kept_for_backward(model: nn.Module, task: Task[Any], batch: Batch) -> tuple[int, int]:
    """Bytes of all tensors that are kept for the backward pass of a batch, and of the largest one."""
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    training = model.training
    with all_kept(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        task.loss(model.train(), batch)
    model.train(training)
    return sum(sizes.values()), max(sizes.values(), default=0)
