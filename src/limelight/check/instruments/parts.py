"""The parts of a module: norms, linear layers and their gradients, attentions."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.argument_values import EXPANSION
from limelight.check.harness.subject import Subject
from limelight.check.instruments.op_trace import Attention, attentions
from limelight.check.places import Place, is_checked

HEADS_ARE_MIXED = "a matrix mixes the weights of the heads"
POSITION_NAME = r"pos(?!t|\w*(ff|feed|wise))"  # not "post", and not a position-wise network


def norms(model: nn.Module) -> list[nn.Module]:
    """The normalisation layers with weights."""
    parts = [part for part in model.modules() if "norm" in type(part).__name__.lower()]
    parts = [part for part in parts if any(True for _ in part.parameters(recurse=False))]
    return [part for part in parts if not any(isinstance(inner, (nn.Linear,)) for inner in part.modules())]


def attentions_of(subject: Subject) -> list[Attention]:
    """All attentions that it computes; measured once per subject."""
    key = "_attentions"
    if key not in subject.__dict__:
        case = subject.case()
        _, steps = subject.trace(subject.model(), case)
        found = attentions(steps)
        if not subject.kind.is_attention or subject.kind.is_additive:
            found = [one for one in found if one.weights.shape[-1] in (case.x.shape[1], case.keys)] or found
        subject.__dict__[key] = found
    return list(subject.__dict__[key])


def mixes_heads(subject: Subject) -> bool:
    """Whether a matrix combines the weights of all heads, as in talking-heads attention (Shazeer 2020)."""
    model, heads = subject.model(), subject.sizes.heads
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return heads > 1 and any(p.shape == (heads, heads) for p in parameters)


def is_no_transformer(model: object) -> bool:
    """Whether it has recurrent layers, or convolutions over several positions."""
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    return any(
        isinstance(part, (nn.RNNBase, nn.RNNCellBase))
        or (isinstance(part, nn.Conv1d) and part.kernel_size[0] > 1)
        for part in parts
    )


def linear_parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Weights and biases of everything except norms and embeddings, with their names."""
    skipped = re.compile(rf"norm|(^|\.)ln|embed|{POSITION_NAME}|token|cls", re.IGNORECASE)
    of_norms = {id(p) for part in norms(model) for p in part.parameters()}
    found = [(name, p) for name, p in model.named_parameters() if id(p) not in of_norms]
    return [(name, p) for name, p in found if not skipped.search(name)]


def hidden_widths(subject: Subject) -> set[int]:
    """Possible hidden widths of a feed-forward network: as given, by a factor, or four times the width."""
    return {subject.sizes.hidden, EXPANSION * subject.sizes.width, 4 * subject.sizes.width}


def place_of_definition(model: nn.Module, name: str) -> Place | None:
    """The line of the checked code that assigns a layer or a parameter, such as `attention.W_k.weight`."""
    *path, attribute = name.split(".")
    while True:
        owner = type(model.get_submodule(".".join(path)))
        file = inspect.getsourcefile(owner) or ""
        if is_checked(file):
            lines, start = inspect.getsourcelines(owner)
            for number, line in enumerate(lines):
                if re.search(rf"self\.{attribute}\b[^=]*=[^=]|['\"]{attribute}['\"]", line):
                    return file, start + number
        if not path:
            return None
        attribute = path.pop()


def compute_gradients(subject: Subject, model: nn.Module) -> None:
    """Set the gradients of all parameters, for a random linear combination of the outputs as the loss."""
    model.zero_grad(set_to_none=True)
    case = subject.case()
    out = subject.call(model, case).out
    torch.default_generator.manual_seed(3)
    if out.requires_grad:  # if not, no parameter is used
        (out.float() * torch.randn(out.shape)).sum().backward()


def used_by_other_outputs(subject: Subject, model: nn.Module) -> set[str]:
    """The names of parameters on which any returned tensor depends, such as a last hidden state."""
    returned: list[Any] = []
    hook = model.register_forward_hook(lambda part, inputs, out: returned.append(out))
    model.zero_grad(set_to_none=True)
    subject.call(model, subject.case())
    hook.remove()
    tensors = [value for value in _flat(returned) if isinstance(value, Tensor) and value.requires_grad]
    if tensors:
        torch.stack(
            [(tensor.float() * torch.randn(tensor.shape)).sum() for tensor in tensors]
        ).sum().backward()
    sizes = {name: float(p.grad.abs().max()) for name, p in model.named_parameters() if p.grad is not None}
    return {name for name, size in sizes.items() if size > 1e-6 * max(sizes.values())}


def _flat(value: Any) -> Iterator[Any]:
    parts = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(parts, (list, tuple)):
        yield parts
        return
    for part in parts:
        yield from _flat(part)
