"""The parts of a module: norms, linear layers, and their gradients."""

import re

import torch
from torch import nn

from limelight.check.harness.argument_values import EXPANSION
from limelight.check.harness.subject import Subject

POSITION_NAME = r"pos(?!t|\w*(ff|feed|wise))"  # not "post", and not a position-wise network


def norms(model: nn.Module) -> list[nn.Module]:
    """The normalisation layers with weights."""
    parts = [part for part in model.modules() if "norm" in type(part).__name__.lower()]
    parts = [part for part in parts if any(True for _ in part.parameters(recurse=False))]
    return [part for part in parts if not any(isinstance(inner, (nn.Linear,)) for inner in part.modules())]


def linear_parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Weights and biases of everything except norms and embeddings, with their names."""
    skipped = re.compile(rf"norm|(^|\.)ln|embed|{POSITION_NAME}|token|cls", re.IGNORECASE)
    of_norms = {id(p) for part in norms(model) for p in part.parameters()}
    found = [(name, p) for name, p in model.named_parameters() if id(p) not in of_norms]
    return [(name, p) for name, p in found if not skipped.search(name)]


def hidden_widths(subject: Subject) -> set[int]:
    """Possible hidden widths of a feed-forward network: as given, by a factor, or four times the width."""
    return {subject.sizes.hidden, EXPANSION * subject.sizes.width, 4 * subject.sizes.width}


def compute_gradients(subject: Subject, model: nn.Module) -> None:
    """Set the gradients of all parameters, for a random linear combination of the outputs as the loss."""
    model.zero_grad(set_to_none=True)
    case = subject.case()
    out = subject.call(model, case).out
    torch.default_generator.manual_seed(3)
    (out.float() * torch.randn(out.shape)).sum().backward()
