"""The class, function or module under test, with one way of calling it whatever its arguments are."""

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.argument_values import value_of_call_argument
from limelight.check.harness.composed import with_forward
from limelight.check.harness.construct import Constructor, constructor_roles
from limelight.check.harness.crash import Attempt
from limelight.check.harness.dropout_off import dropout_off
from limelight.check.harness.inputs import CannotCall, Case, Form, MaskArgument, Result, random_sequence
from limelight.check.harness.mask_formats import MaskFormat
from limelight.check.harness.outputs import read_result
from limelight.check.harness.plans import Plan
from limelight.check.harness.random_weights import randomise
from limelight.check.harness.signature import (
    FIRST_STATE,
    Roles,
    all_allowed,
    call_roles,
    is_cache,
    mask_arguments,
)
from limelight.check.harness.sizes import SIZES, Sizes
from limelight.check.instruments.op_trace import Step, trace
from limelight.check.kinds import Kind

Masks = dict[str, Tensor]  # by the name of a mask argument: (B, T, S), True where a query may attend to a key

FIRST_PLAN = Plan(SIZES)


@dataclass
class Subject:
    """The object under test: how it is constructed, and how it is called."""

    target: Any
    name: str
    kind: Kind
    namespace: dict[str, Any] = field(default_factory=dict)
    sizes: Sizes = SIZES
    form: Form = field(default_factory=Form)
    masks: list[MaskArgument] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    construction: int = 0  # which of the possible sets of constructor arguments is used
    plan: Plan = FIRST_PLAN  # what the constructor gets; the module may have other sizes
    constructor_arguments: dict[str, Any] = field(default_factory=dict)  # given to every new object
    call_arguments: dict[str, Any] = field(default_factory=dict)  # given to every call
    targets: str | None = None  # an argument that gets the tokens again, as the targets of the loss
    crash: Attempt | None = None  # a call that should work and does not
    # The masks of the last call, each with a copy from before the call.
    given_masks: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def is_constructed(self) -> bool:
        """Whether the target is a class, or a function that returns a module of this kind."""
        returns_module = self.kind.is_block or self.kind.is_stack
        return isinstance(self.target, type) or (returns_module and inspect.isfunction(self.target))

    @property
    def is_module(self) -> bool:
        """Whether a module is called, not a function."""
        return self.is_constructed or isinstance(self.target, nn.Module)

    @property
    def returns_table(self) -> bool:
        """Whether it returns a table of positions, and is no layer that adds one."""
        return self.form.inputs == "size" and (not self.is_module or self.kind.is_positional)

    @property
    def constructor(self) -> Constructor:
        """Constructs it with the classes of its file."""
        return Constructor(self.namespace, self.plan.keep_defaults, self.plan.fill_options)

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters of a call."""
        called = self.target
        if self.is_constructed and not isinstance(called, type):
            _, called = next(self.constructor.instances(called, self.kind, self.plan.sizes))
        if isinstance(called, type):
            called = with_forward(called)
            called = called.forward if hasattr(called, "forward") else called.__call__
            return list(inspect.signature(called).parameters.values())[1:]
        if isinstance(called, nn.Module):
            called = called.forward
        try:
            return list(inspect.signature(called).parameters.values())
        except ValueError:
            raise CannotCall("the names of its arguments cannot be read") from None

    @cached_property
    def roles(self) -> Roles:
        """The roles of the arguments of a call."""
        return call_roles(self.parameters, self.kind)

    @cached_property
    def constructor_roles(self) -> Roles:
        """The roles of the arguments of its constructor."""
        if not self.is_constructed:
            return {}
        return constructor_roles(self.target, self.kind, self.namespace, self.sizes)

    @cached_property
    def source_code(self) -> str:
        """Its source code, or nothing if that cannot be read."""
        try:
            return inspect.getsource(self.target)
        except (OSError, TypeError):
            return ""

    @property
    def has_source(self) -> bool:
        """Whether it attends to another sequence than its own."""
        if self.kind.has_one_input:
            return False
        if {"key", "memory", "source", "value"} & set(self.roles.values()):
            return True
        # The decoders of d2l find it in the state that they require.
        states = [p for p in self.parameters if self.roles.get(p.name) == "state"]
        return self.kind.is_decoder and any(p.default is p.empty for p in states)

    def mask_arguments(self) -> list[MaskArgument]:
        """The arguments of a call that may be masks."""
        required = {p.name for p in self.parameters if p.default is p.empty}
        return mask_arguments(self.kind, self.roles, required, has_source=self.has_source)

    # -- construction ------------------------------------------------------------------------------------

    def model(
        self, *, training: bool = False, seed: int = 1, given: dict[str, Any] | None = None, **sizes: object
    ) -> Any:
        """A new object with random weights; `given` are constructor arguments, `sizes` replace usual ones."""
        if not self.is_constructed:
            if not isinstance(self.target, nn.Module):
                return self.target
            return copy.deepcopy(self.target).train(training)
        model = self.constructor.instance(
            self.target,
            self.kind,
            self.plan.sizes.replace(**sizes),
            seed,
            self.constructor_arguments | (given or {}),
            self.construction,
        )
        if isinstance(model, nn.Module):
            model.eval()
            with torch.no_grad():
                torch.default_generator.manual_seed(seed)
                with suppress(Exception):  # initialises lazy layers; a call that fails will fail again
                    self.call(model, self.case())
            randomise(model, seed)
            model.train(training)
        return model

    def case(self, seed: int = 1, **changes: Any) -> Case:
        """A random input; `changes` replace the usual sizes."""
        sizes, form = self.sizes.replace(**changes), self.form
        torch.default_generator.manual_seed(seed)
        if form.inputs == "images":
            return Case(torch.rand(sizes.batch, sizes.channels, *sizes.image))
        if self.kind.reads_scores:
            return Case(torch.randn(sizes.batch, sizes.queries, sizes.keys))
        width = sizes.head_width if self.kind.is_bare and self.has_source else sizes.width
        queries = sizes.queries if form.query == "BTD" else 1
        x = random_sequence(form.inputs, sizes, queries, width)
        if not self.has_source:
            return Case(x)
        of_source = width if self.kind.is_bare else sizes.memory
        source = random_sequence(form.source, sizes, sizes.keys, of_source)
        if self.kind.is_bare:
            values = torch.randn(sizes.batch, sizes.keys, sizes.values if form.narrow_values else width)
            return Case(x, source, values)
        return Case(x, source)

    # -- calls -------------------------------------------------------------------------------------------

    def call(
        self,
        model: Any,
        case: Case,
        masks: Masks | None = None,
        *,
        state: Any = None,
        return_state: bool = False,
        copied: bool = True,
        dropout: bool = False,
    ) -> Result:
        """The output for `case` under these masks; with `return_state`, the state is requested, too.

        Without `dropout`, dropout is off, and random draws are the same in every call.
        """
        masks = masks or {}
        if not self.form.batched:
            return self._one_by_one(model, case, masks, dropout=dropout)
        shaped = self._shaped(case.map(torch.clone) if copied else case)
        arguments: dict[str, Any] = {}
        mask_arguments = {
            name: mask
            for mask in self.masks
            if mask.role != "state"
            for name in (mask.name, *mask.duplicates)
        }
        for parameter in self.parameters:
            name = parameter.name
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if name in mask_arguments:
                arguments[name] = self._mask(parameter, mask_arguments[name], case, masks)
            elif name == self.targets and name not in self.call_arguments:
                arguments[name] = shaped.x.contiguous()
            elif name in self.call_arguments:
                arguments[name] = self.call_arguments[name]
            elif return_state and self.roles[name] == "return_state":
                arguments[name] = True
            elif return_state and self.roles[name] == "state" and state is not None:
                arguments[name] = state
            else:
                value = self._argument(parameter, shaped, model, masks, state)
                if value is not _USE_DEFAULT:
                    arguments[name] = value
        positional = [
            arguments.pop(p.name)
            for p in self.parameters
            if p.kind == p.POSITIONAL_ONLY and p.name in arguments
        ]
        with nullcontext() if dropout else dropout_off():
            returned = model(*positional, **arguments)
        return read_result(returned, case, self.form, self.kind, self.sizes.vocabulary)

    def _one_by_one(self, model: Any, case: Case, masks: Masks, *, dropout: bool) -> Result:
        """The output of code that takes one sequence at a time: (T, D) instead of (B, T, D)."""
        batched, self.form = self.form, replace(self.form, batched=True)
        results = []
        try:
            for b in range(len(case.x)):
                single = case.map(lambda t, b=b: t[b])  # type: ignore[misc]
                allowed = {name: mask[b : b + 1] for name, mask in masks.items()}
                results.append(self.call(model, single, allowed, dropout=dropout))
        finally:
            self.form = batched
        return Result(torch.stack([one.out for one in results]))

    def trace(
        self, model: Any, case: Case, masks: Masks | None = None, *, dropout: bool = False
    ) -> tuple[Result, list[Step]]:
        """The output of a call, and the torch operations inside it."""
        result, steps = trace(lambda: self.call(model, case, masks, dropout=dropout))
        return result, steps

    @contextmanager
    def with_arguments(self, **arguments: Any) -> Iterator[None]:
        """Inside this context, all calls get these arguments."""
        before, self.call_arguments = self.call_arguments, self.call_arguments | arguments
        try:
            yield
        finally:
            self.call_arguments = before

    def _mask(self, parameter: inspect.Parameter, mask: MaskArgument, case: Case, masks: Masks) -> Any:
        """The value of a mask argument; its default if no mask is given and none is required."""
        allowed = masks.get(mask.name)
        if allowed is None and not mask.required:
            return None if parameter.default is parameter.empty else parameter.default
        if allowed is None:
            allowed = all_allowed(self.kind, case, mask)
        dtype = case.x.dtype if case.x.is_floating_point() else torch.float32
        encoded = (mask.format or MaskFormat("bool+", "BTS")).encode(allowed, dtype).clone()
        given = encoded.to(case.x.device)
        self.given_masks[parameter.name] = given, encoded.clone()
        return given

    def _argument(
        self, parameter: inspect.Parameter, shaped: Case, model: Any, masks: Masks, state: Any
    ) -> Any:
        """The value of an argument that is no mask, by its role."""
        role = self.roles[parameter.name]
        is_required = parameter.default is parameter.empty
        source = shaped.x if shaped.source is None else shaped.source
        if role in ("query", "x", "target"):
            return shaped.x
        if role in ("key", "memory", "source"):
            return source
        if role == "value":
            return source if shaped.values is None else shaped.values
        if role == FIRST_STATE:
            layers = {"BD": [], "1BD": [1], "LBD": [self.sizes.depth]}[self.form.first_state]
            return torch.full((*layers, len(shaped.x), self.sizes.width), 0.3).to(source)
        is_cached = is_cache(parameter.name) and {"key", "memory", "source"} & set(self.roles.values())
        if role == "state" and self.kind.is_decoder and is_required and not is_cached:
            return state if state is not None else self._first_state(model, source, masks.get(parameter.name))
        if role == "positions" and is_required:
            return self._positions(parameter.name, shaped)
        if role == "weights" and parameter.default in (False, True):
            return True
        if role == "average" and parameter.default in (False, True):
            return False
        if role == "axis" and is_required:
            return -1
        if role == "dropout" and is_required and f"{parameter.name}(" in self.source_code:
            return nn.Identity()
        if is_required:
            return value_of_call_argument(parameter.name, self.kind, self.sizes)
        return _USE_DEFAULT

    def _positions(self, name: str, shaped: Case) -> Tensor:
        """The positions of the target or of the source, by the beginning of the name: numbers or vectors."""
        of_source = [n for n, role in self.roles.items() if role == "source" and n[:3] == name[:3]]
        tokens = shaped.source if of_source and shaped.source is not None else shaped.x
        if self.form.positions == "ids":
            return torch.arange(tokens.shape[1]).expand(tokens.shape[:2]).to(tokens.device)
        vectors = torch.sin(torch.arange(tokens.shape[1] * self.sizes.width) * 1.7)
        return vectors.view(1, -1, self.sizes.width).repeat(len(tokens), 1, 1).to(tokens.device)

    def _first_state(self, model: Any, source: Tensor, allowed: Tensor | None) -> Any:
        """The state of d2l's decoders: the encoder output, its lengths, and the past inputs of each block."""
        lengths = None if allowed is None else allowed[:, 0].sum(-1).to(source.device)
        if hasattr(model, "init_state"):
            try:
                return model.init_state(source, lengths)
            except Exception:  # a recurrent encoder returns (T, B, D) and its last hidden state
                last = torch.full((self.sizes.depth, *source[:, 0].shape), 0.3).to(source)
                return model.init_state((source.transpose(0, 1), last), lengths)
        return [source, lengths, [None] * self.sizes.depth]

    def _shaped(self, case: Case) -> Case:
        """The input in the form that the call expects."""
        form = self.form
        if form.heads_axis:
            return case.map(lambda t: torch.stack([t, t.flip(-1)][: self.sizes.heads], 1))
        shaped = case.map(lambda t: t.transpose(0, 1)) if form.time_first else case
        if form.query == "BTD":
            return shaped
        query = {"BD": case.x[:, 0], "1BD": case.x.transpose(0, 1), "B1D": case.x}[form.query]
        return replace(shaped, x=query)


_USE_DEFAULT = object()
