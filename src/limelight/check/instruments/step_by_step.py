"""Decoding step by step, one position at a time with the state of the last step."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.causal_behaviour import is_causal, masks_of_caller
from limelight.check.instruments.influence import differs
from limelight.check.instruments.no_positions import without_positions

OFFSET_NAME = re.compile(r"offset|start|(past|cache)_?len|pos(ition|_in)")  # of the first position of a call


@dataclass(frozen=True)
class Comparison:
    """The outputs of single steps, and those of all positions at once."""

    at_once: Tensor
    steps: Tensor
    only_positions_differ: bool  # without positional encodings, the two are equal

    @property
    def first_difference(self) -> tuple[int, int] | None:
        """The first sequence and step in which the two differ."""
        wrong = _differing(self.at_once, self.steps).nonzero()
        return None if not len(wrong) else (int(wrong[0][0]), int(wrong[0][1]))


def has_state(subject: Subject) -> bool:
    """Whether its call takes a state, or a cache."""
    return "state" in subject.roles.values()


@torch.no_grad()
def compare_steps(subject: Subject) -> Comparison | None:
    """The outputs of single steps and of all positions at once; None if no state is returned or filled."""
    case = subject.case()
    # The decoders of d2l require a state, and are causal in training only.
    state = next(p for p in subject.parameters if subject.roles[p.name] == "state")
    training = state.default is state.empty
    masks = {} if training or is_causal(subject) else masks_of_caller(subject)

    def compare() -> tuple[Tensor, Tensor | None]:
        at_once = subject.call(subject.model(training=training), case, masks).out
        return at_once, _outputs_of_steps(subject, case)

    at_once, steps = compare()
    if steps is None:
        return None
    only_positions_differ = False
    if _differing(at_once, steps).any():
        with without_positions():
            at_once_without, steps_without = compare()
        if steps_without is not None:
            only_positions_differ = not _differing(at_once_without, steps_without).any()
    return Comparison(at_once, steps, only_positions_differ)


def _outputs_of_steps(subject: Subject, case: Case) -> Tensor | None:
    """The outputs of one position at a time; None if there is no state.

    A state is returned, or an empty cache that is given is filled: one, or one per layer.
    """
    depth = subject.sizes.depth
    empty_states: tuple[object, ...] = (None, {}, [{} for _ in range(depth)], [None] * depth)
    error: Exception | None = None
    for state in empty_states:
        try:
            outputs = _outputs_from_state(subject, case, state)
        except Exception as raised:  # another kind of cache
            error = error or raised
            continue
        if outputs is not None:
            return outputs
    if error is not None:
        raise error
    return None


def _outputs_from_state(subject: Subject, case: Case, state: object) -> Tensor | None:
    """The outputs; None if there is no state, or if a cache that is filled does not grow with each step."""
    model, outputs, sizes = subject.model(), [], []
    is_filled = state is not None
    offsets = [p.name for p in subject.parameters if p.default == 0 and OFFSET_NAME.search(p.name)]
    for t in range(case.x.shape[1]):
        with subject.with_arguments(**dict.fromkeys(offsets, t)):
            step = subject.call(model, replace(case, x=case.x[:, t : t + 1]), state=state, return_state=True)
        state = state if step.state is None else step.state
        if _is_empty(state):
            return None
        outputs.append(step.out)
        sizes.append(sum(tensor.numel() for tensor in _tensors(state)))
    if is_filled and sizes[-1] == sizes[0]:
        return None
    return torch.cat(outputs, 1)


def _is_empty(state: object) -> bool:
    parts = state if isinstance(state, list) else [state]
    return all(part is None or (isinstance(part, dict) and not part) for part in parts)


def _tensors(state: object) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, (dict, list, tuple)):
        for part in state.values() if isinstance(state, dict) else state:
            yield from _tensors(part)


def _differing(one: Tensor, other: Tensor) -> Tensor:
    """(B, T, ...), (B, T, ...) -> (B, T): where the two differ by more than rounding"""
    is_close = torch.isclose(one, other, atol=1e-4, rtol=1e-3).flatten(2).all(-1)
    return differs(one, other) & ~is_close
