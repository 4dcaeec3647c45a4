"""The output of a call, whatever its type and layout: batch first, weights and state apart."""

import dataclasses
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from limelight.check.harness.inputs import CannotCall, Case, Form, Result
from limelight.check.kinds import Kind


def read_result(returned: Any, case: Case, form: Form, kind: Kind, vocabulary: int) -> Result:
    """The output, the attention weights and the state in what a call returned."""
    if returned is None:
        raise CannotCall("it returns None")
    tensors, state = _tensors_and_state(returned)
    if not tensors:
        raise CannotCall("it returns no tensor")
    if form.inputs in ("images", "size"):
        return Result(tensors[0], None, state)
    out = _output(tensors, case, vocabulary)
    out, shifted = (out, False) if form.heads_axis else _with_positions(out, case, kind)
    weights = next((t for t in tensors if t is not out and t.shape[-1:] == (case.keys,)), None)
    if form.heads_axis and kind.reads_scores:
        out = out[:, 0]
    elif form.heads_axis:
        out = out.transpose(1, 2).flatten(2)
    one_sequence = case.x.shape[1:]
    if kind.is_positional and out.shape in (one_sequence, (1, *one_sequence)) and not form.time_first:
        return Result(out.expand(len(case.x), -1, -1), shared=True)
    if form.time_first and out.dim() >= 2 and form.query == "BTD":
        out = out.transpose(0, 1)
    if form.query == "1BD" and out.dim() == 3 and len(out) == 1:
        out = out.transpose(0, 1)
    if kind.reads_tokens and out.dim() in (1, 2) and len(out) == len(case.x):
        pooled_B1L = out.reshape(len(out), 1, -1)  # one output for all positions
        return Result(pooled_B1L.expand(-1, case.x.shape[1], -1), weights, state, pooled=True)
    if out.dim() == 2 and case.x.dim() == 3 and len(out) == len(case.x):
        out = out.unsqueeze(1)
    return Result(out, weights, state, shifted)


def _with_positions(out: Tensor, case: Case, kind: Kind) -> tuple[Tensor, bool]:
    """(B·T, V) -> (B, T, V), as models return it for their loss; whether the last position is missing."""
    batch, length = case.x.shape[:2]
    if out.dim() == 4 and len(out) == 1 and case.x.dim() == 3:
        out = out[0]  # the output of one layer of several
    if length < 2:
        return out, False
    is_flat = out.dim() == 2 and len(out) in (batch * length, batch * (length - 1)) and len(out) != batch
    if kind.reads_tokens and is_flat:
        out = out.unflatten(0, (batch, -1))
    if kind.reads_tokens and case.source is not None and out.dim() == 3 and out.shape[1] == length - 1:
        return torch.nn.functional.pad(out, (0, 0, 0, 1)), True
    return out, False


def _output(tensors: list[Tensor], case: Case, vocabulary: int) -> Tensor:
    """The tensor that is the output: the first one of the expected width, or else the first one."""
    floats = [t for t in tensors if t.is_floating_point() or t.dtype.is_complex] or tensors
    width = case.x.shape[-1] if case.values is None else case.values.shape[-1]
    if not case.x.is_floating_point():
        width = vocabulary
    return next((t for t in floats if t.shape[-1:] == (width,)), floats[0])


def _tensors_and_state(returned: Any) -> tuple[list[Tensor], Any]:
    if isinstance(returned, Tensor):
        return [returned], None
    if isinstance(returned, dict):
        returned = tuple(returned.values())
    if dataclasses.is_dataclass(returned):
        returned = tuple(vars(returned).values())
    if not isinstance(returned, (tuple, list)):
        return [], None
    tensors = [value for value in returned if isinstance(value, Tensor)]
    others = [value for value in returned if not isinstance(value, (Tensor, int, float, str, NoneType))]
    return tensors, others[0] if others else None
