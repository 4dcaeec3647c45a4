"""Models are built, and trained, only where there is memory for them."""

import re
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from limelight.data.batching import epoch_batches, even_batches
from limelight.errors import WrongInput
from limelight.experiment.config import Experiment, ModelConfig
from limelight.memory import check_memory
from limelight.models.sizes import Sizes
from limelight.tasks.task import Task
from limelight.training.evaluate import BATCH

SMALLER = "make the model smaller"
COPIES = 5  # of each weight while training: itself, its gradient, two moments, and one to save
SPARE = 1.5  # of what is kept for the backward pass: gradients, and what an operation needs for itself


def build_model(config: ModelConfig, sizes: Sizes, *, copies: int = 1) -> nn.Module:
    """The model of a config; refused before its weights are drawn where memory is too small for them."""
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


def check_step(wanted: Experiment, task: Task, model: nn.Module, processes: int) -> None:
    """Refuse a batch whose training step or evaluation needs more memory than there is.

    The longest example is computed to measure how much is kept for the backward pass. The estimate scales
    this to the batch with the most tokens.
    """
    lengths = task.lengths("train")
    with torch.random.fork_rng(devices=[]):
        kept, largest = _kept_for_backward(model, task, int(lengths.argmax()))
    longest = max(1, int(lengths.max()))
    batches = epoch_batches(lengths, wanted.train.batch, wanted.seed, 0)
    pieces = wanted.train.accumulate * processes
    trained = max(1.0, _most_tokens(lengths, batches) / longest / pieces)
    lengths = task.lengths("validation")
    evaluated = _most_tokens(lengths, even_batches(lengths, BATCH)) / longest
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    needed = weights * COPIES + max(SPARE * kept * trained, 2.0 * largest * evaluated)
    check_memory(needed, f"{SMALLER}, or lower train.batch")


def _most_tokens(lengths: Tensor, batches: Iterable[Tensor]) -> int:
    """The number of tokens in the largest batch, padding included."""
    return max(len(index) * int(lengths[index].max()) for index in batches)


def _kept_for_backward(model: nn.Module, task: Task, example: int) -> tuple[int, int]:
    """Bytes of all tensors that one example leaves for the backward pass, and of the largest."""
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    training = model.training
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        task.score(model.train(), task.batch("train", torch.tensor([example])))
    model.train(training)
    return sum(sizes.values()), max(sizes.values(), default=0)
