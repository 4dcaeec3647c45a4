"""Someone's class or function, called in one way whatever its arguments are and are named."""

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.argument_values import number_for
from limelight.check.harness.construct import Builder, constructor_roles
from limelight.check.harness.inputs import (
    BARE,
    DECODERS,
    IMAGES,
    MADE,
    Case,
    Form,
    MaskArgument,
    NotUnderstood,
    Result,
)
from limelight.check.harness.mask_formats import Way
from limelight.check.harness.signature import BEGIN, everything, mask_arguments, roles_of_call
from limelight.check.harness.sizes import SIZES, Sizes
from limelight.check.instruments.op_trace import Step, traced


@dataclass
class Subject:
    target: Any
    name: str
    kind: str
    namespace: dict[str, Any] = field(default_factory=dict)
    sizes: Sizes = SIZES
    form: Form = field(default_factory=Form)
    masks: list[MaskArgument] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    choice: int = 0
    said: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # masks, as given and as they were
    asked: dict[str, Any] = field(default_factory=dict)  # arguments of calls, told beside what is usual
    made_with: dict[str, Any] = field(default_factory=dict)  # arguments of its constructor, in the same way

    @property
    def is_made(self) -> bool:
        """Whether the target makes the object that is called: a class, or a function that builds a model."""
        return isinstance(self.target, type) or (self.kind in MADE and inspect.isfunction(self.target))

    @property
    def is_module(self) -> bool:
        return self.is_made or isinstance(self.target, nn.Module)

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """Of the call."""
        called = self.target
        if self.is_made and not isinstance(called, type):
            called = next(Builder(self.namespace).instances(called, self.kind, self.sizes))
        if isinstance(called, type):
            called = called.forward if hasattr(called, "forward") else called.__call__
            return list(inspect.signature(called).parameters.values())[1:]
        if isinstance(called, nn.Module):
            called = called.forward
        try:
            return list(inspect.signature(called).parameters.values())
        except ValueError:
            raise NotUnderstood("its arguments have no names that can be read") from None

    @cached_property
    def roles(self) -> dict[str, str | None]:
        return roles_of_call(self.parameters, self.kind)

    @cached_property
    def told_by(self) -> dict[str, str | None]:
        """What its constructor can be told, and what each of it is for."""
        return constructor_roles(self.target, self.kind, self.namespace, self.sizes) if self.is_made else {}

    @property
    def has_source(self) -> bool:
        """Whether it looks at another sequence than its own."""
        if self.kind in ("masked-softmax", "encoder-block", "encoder", *IMAGES):
            return False
        if {"key", "memory", "source", "value"} & set(self.roles.values()):
            return True
        # d2l's decoders find it in the state that they must be given.
        states = [p for p in self.parameters if self.roles.get(p.name) == "state"]
        return self.kind in DECODERS and any(p.default is p.empty for p in states)

    def mask_arguments(self) -> list[MaskArgument]:
        required = {p.name for p in self.parameters if p.default is p.empty}
        return mask_arguments(self.kind, self.roles, required, has_source=self.has_source)

    # -- making ------------------------------------------------------------------------------------------

    def model(
        self, *, training: bool = False, seed: int = 1, told: dict[str, Any] | None = None, **changes: object
    ) -> Any:
        """A fresh one, none of its weights zero; `told`: arguments of its constructor."""
        sizes = self.sizes.but(**changes)
        if not self.is_made:
            if not isinstance(self.target, nn.Module):
                return self.target
            return copy.deepcopy(self.target).train(training)
        every = Builder(self.namespace).instances(
            self.target, self.kind, sizes, seed, self.made_with | (told or {})
        )
        made = next(islice(every, self.choice, None))
        if isinstance(made, nn.Module):
            made.eval()
            with torch.no_grad():
                torch.manual_seed(seed)
                with suppress(Exception):  # lazy layers are born now; a call that fails will fail again
                    self.call(made, self.case())
            roughen(made, seed)
            made.train(training)
        return made

    def case(self, seed: int = 1, **changes: Any) -> Case:
        """Random inputs."""
        sizes, form = self.sizes.but(**changes), self.form
        torch.manual_seed(seed)
        if form.inputs == "images":
            return Case(torch.rand(sizes.batch, sizes.channels, *sizes.image))
        if self.kind == "masked-softmax":
            return Case(torch.randn(sizes.batch, sizes.queries, sizes.keys))
        width = sizes.head_width if self.kind in BARE and self.has_source else sizes.width
        queries = sizes.queries if form.query == "BTD" else 1
        x = _sequence(form.inputs, sizes, queries, width)
        if not self.has_source:
            return Case(x)
        source = _sequence(form.source, sizes, sizes.keys, width)
        if self.kind in BARE:
            values = torch.randn(sizes.batch, sizes.keys, sizes.values if form.narrow_values else width)
            return Case(x, source, values)
        return Case(x, source)

    # -- calling -----------------------------------------------------------------------------------------

    def call(
        self,
        model: Any,
        case: Case,
        hide: dict[str, Tensor] | None = None,
        *,
        state: Any = None,
        carry: bool = False,
        copied: bool = True,
    ) -> Result:
        """`hide`: for a mask argument, who may attend to whom (B, T, S); `carry`: a state is wanted, too."""
        shaped = self._shaped(case.each(torch.clone) if copied else case)
        arguments: dict[str, Any] = {}
        roles = self.roles
        masks = {
            name: mask for mask in self.masks if mask.role != "state" for name in (mask.name, *mask.along)
        }
        for parameter in self.parameters:
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if parameter.name in masks:
                arguments[parameter.name] = self._mask(parameter, masks[parameter.name], case, hide or {})
                continue
            if parameter.name in self.asked:
                arguments[parameter.name] = self.asked[parameter.name]
                continue
            if carry and roles[parameter.name] == "carry":
                arguments[parameter.name] = True
                continue
            if carry and roles[parameter.name] == "state" and state is not None:
                arguments[parameter.name] = state
                continue
            value = self._argument(parameter, roles[parameter.name], shaped, model, hide or {}, state)
            if value is not _LEAVE:
                arguments[parameter.name] = value
        positional = [
            arguments.pop(p.name)
            for p in self.parameters
            if p.kind == p.POSITIONAL_ONLY and p.name in arguments
        ]
        return self._result(model(*positional, **arguments), case)

    def _mask(
        self, parameter: inspect.Parameter, mask: MaskArgument, case: Case, hide: dict[str, Tensor]
    ) -> Any:
        """What a mask argument is given: its default, where nothing is hidden by it and it need not be."""
        allowed = hide.get(mask.name)
        if allowed is None and not mask.required:
            return None if parameter.default is parameter.empty else parameter.default
        if allowed is None:
            allowed = everything(self.kind, case, mask)
        dtype = case.x.dtype if case.x.is_floating_point() else torch.float32
        said = (mask.way or Way("bool+", "BTS")).say(allowed, dtype).clone()
        given = said.to(case.x.device)
        self.said[parameter.name] = given, said.clone()
        return given

    @contextmanager
    def asking(self, **told: Any) -> Iterator[None]:
        """As long as the context is open, calls are told this, too."""
        self.asked = told
        try:
            yield
        finally:
            self.asked = {}

    def _argument(
        self,
        parameter: inspect.Parameter,
        role: str | None,
        shaped: Case,
        model: Any,
        hide: dict[str, Tensor],
        state: Any,
    ) -> Any:
        source = shaped.x if shaped.source is None else shaped.source
        if role in ("query", "x", "target"):
            return shaped.x
        if role in ("key", "memory", "source"):
            return source
        if role == "value":
            return source if shaped.values is None else shaped.values
        if role == BEGIN:
            layers = {"BD": [], "1BD": [1], "LBD": [self.sizes.depth]}[self.form.begin]
            return torch.full((*layers, len(shaped.x), self.sizes.width), 0.3).to(source)
        if role == "state" and self.kind in DECODERS and parameter.default is parameter.empty:
            return state if state is not None else self._first_state(model, source, hide.get(parameter.name))
        if role == "weights" and parameter.default in (False, True):
            return True
        if role == "average" and parameter.default in (False, True):
            return False
        if role == "axis" and parameter.default is parameter.empty:
            return -1
        if parameter.default is parameter.empty:
            return number_for(parameter.name, self.kind, self.sizes)
        return _LEAVE

    def _first_state(self, model: Any, source: Tensor, allowed: Tensor | None) -> Any:
        """d2l's: the encoder's output, its lengths, and what each block has seen."""
        lengths = None if allowed is None else allowed[:, 0].sum(-1).to(source.device)
        if hasattr(model, "init_state"):
            try:
                return model.init_state(source, lengths)
            except Exception:  # a recurrent encoder gives (T, B, D), and its last hidden state
                hidden = torch.full((self.sizes.depth, *source[:, 0].shape), 0.3).to(source)
                return model.init_state((source.transpose(0, 1), hidden), lengths)
        return [source, lengths, [None] * self.sizes.depth]

    def _shaped(self, case: Case) -> Case:
        form = self.form
        if form.heads_axis:
            return case.each(lambda t: torch.stack([t, t.flip(-1)][: self.sizes.heads], 1))
        turned = case.each(lambda t: t.transpose(0, 1)) if form.time_first else case
        if form.query == "BTD":
            return turned
        return replace(
            turned, x={"BD": case.x[:, 0], "1BD": case.x.transpose(0, 1), "B1D": case.x}[form.query]
        )

    def _result(self, returned: Any, case: Case) -> Result:
        tensors, state = _tensors(returned)
        if not tensors:
            raise NotUnderstood("it returns no tensor")
        if self.form.inputs in ("images", "size"):
            return Result(tensors[0], None, state)
        out = self._out(tensors, case)
        weights = next((t for t in tensors if t is not out and t.shape[-1:] == (case.keys,)), None)
        if self.form.heads_axis and self.kind == "masked-softmax":
            out = out[:, 0]
        elif self.form.heads_axis:
            out = out.transpose(1, 2).flatten(2)
        if self.form.time_first and out.dim() >= 2 and self.form.query == "BTD":
            out = out.transpose(0, 1)
        if self.form.query == "1BD" and out.dim() == 3 and len(out) == 1:
            out = out.transpose(0, 1)
        if self.kind == "sequence-model" and out.dim() in (1, 2) and len(out) == len(case.x):
            whole_B1L = out.reshape(len(out), 1, -1)  # one answer for all positions
            return Result(whole_B1L.expand(-1, case.x.shape[1], -1), weights, state, pooled=True)
        if out.dim() == 2 and case.x.dim() == 3 and len(out) == len(case.x):
            out = out.unsqueeze(1)
        return Result(out, weights, state)

    def _out(self, tensors: list[Tensor], case: Case) -> Tensor:
        """Of what was returned, the one that is the answer: by its width, then by its shape."""
        width = case.x.shape[-1] if case.values is None else case.values.shape[-1]
        floats = [t for t in tensors if t.is_floating_point() or t.dtype.is_complex] or tensors
        fitting = [t for t in floats if t.shape[-1:] == (width,)] if case.x.is_floating_point() else []
        return (fitting or floats)[0]

    def trace(
        self, model: Any, case: Case, hide: dict[str, Tensor] | None = None
    ) -> tuple[Result, list[Step]]:
        result, steps = traced(lambda: self.call(model, case, hide))
        return result, steps


_LEAVE = object()


def _sequence(inputs: str, sizes: Sizes, length: int, width: int) -> Tensor:
    if inputs == "tokens":
        return torch.randint(1, sizes.vocabulary, (sizes.batch, length))
    return torch.randn(sizes.batch, length, width)


def _tensors(returned: Any) -> tuple[list[Tensor], Any]:
    """The tensors of an answer, and what it carries on."""
    if isinstance(returned, Tensor):
        return [returned], None
    if isinstance(returned, dict):
        returned = tuple(returned.values())
    if not isinstance(returned, (tuple, list)):
        return [], None
    tensors = [value for value in returned if isinstance(value, Tensor)]
    others = [value for value in returned if not isinstance(value, Tensor) and value is not None]
    return tensors, others[0] if others else None


def roughen(model: nn.Module, seed: int) -> None:
    """Matrices as they are often born: no two equal, none zero. What is not learned stays."""
    draw = torch.Generator().manual_seed(seed)
    parts = [part for part in model.modules() if "norm" in type(part).__name__.lower()]
    norms = {id(p) for part in parts for p in part.parameters(recurse=False)}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or isinstance(parameter, nn.parameter.UninitializedParameter):
            continue
        with torch.no_grad():
            if parameter.dim() >= 2:
                size = 1.0 if "emb" in name.lower() else parameter[0].numel() ** -0.5
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * size * 1.2)
            elif id(parameter) not in norms and "norm" not in name.lower() and not parameter.any():
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.1)
