"""Finds a way of calling the object under test: its sizes, the form of its tensors, the axis of positions."""

import inspect
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from limelight.check.harness.argument_names import call_role, constructor_role
from limelight.check.harness.constants import replaced_constants
from limelight.check.harness.construct import CannotConstruct
from limelight.check.harness.crash import Attempt, attempt, crash, crash_finding, is_refusal, is_unfinished
from limelight.check.harness.inputs import CannotCall, Case, Form, MaskArgument, Result
from limelight.check.harness.mask_formats import MaskFormat, formats_for
from limelight.check.harness.observe import fitted_sizes, observed_sizes
from limelight.check.harness.plans import Plan, plans
from limelight.check.harness.signature import FIRST_STATE, forms
from limelight.check.harness.sizes import Sizes
from limelight.check.harness.subject import Subject
from limelight.check.harness.time_limit import CALL_SECONDS, TooSlow, time_limit

# Names of call arguments that mean the same everywhere.
PLAIN_NAME = re.compile(
    r"x|[qkv]|quer(y|ies)|keys?|values?|src|tgt|trg|sources?|targets?|inputs?|(\w+_)?mask|memory|enc(oder)?_out(put)?s?"
)
MAXIMUM_ATTEMPTS = 200
BY_NAME = MaskFormat("bool+", "by name")  # each mask has the layout that its name suggests
SEARCH_SECONDS = 15.0  # of the processor, for all attempts


def find_call(subject: Subject, stack: ExitStack) -> None:
    """Set sizes and form of the subject such that it can be called; CannotCall if there are none.

    Constants of the file that were replaced stay so until the stack is closed.
    """
    if _takes_only_sizes(subject):
        subject.form = Form("size")
        return
    search = _Search(subject)
    for plan in plans(subject.target, subject.kind, subject.sizes):
        with ExitStack() as changes:
            if plan.replace_constants:
                names = changes.enter_context(replaced_constants(subject.target, subject.kind, plan.sizes))
            if search.succeeds(plan):
                _find_position_axis(subject)
                if plan.replace_constants:
                    subject.notes.append(f"constants that were replaced by small sizes: {', '.join(names)}")
                if plan.note:
                    subject.notes.append(f"called with {plan.note}")
                stack.push(changes.pop_all())
                return
        if search.is_over or search.found_crash:
            break
    raise search.conclusion()


class _Search:
    """Tries one plan after the other, and collects the errors."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.attempts: list[Attempt] = []
        self.deadline = time.process_time() + SEARCH_SECONDS

    @property
    def is_over(self) -> bool:
        return len(self.attempts) >= MAXIMUM_ATTEMPTS or time.process_time() > self.deadline

    def succeeds(self, plan: Plan) -> bool:
        """Whether it can be called in this way; then the subject is set to it."""
        subject = self.subject
        subject.plan, subject.sizes = plan, plan.sizes
        try:
            subject.masks = subject.mask_arguments()
            roles = subject.roles.values()
            has_positions = any(
                subject.roles.get(p.name) == "positions" for p in subject.parameters if p.default is p.empty
            )
            for form in forms(
                subject.kind,
                has_source=subject.has_source,
                is_recurrent=FIRST_STATE in roles,
                has_positions=has_positions,
            ):
                if plan.usual_forms and not form.is_usual:
                    continue
                subject.form = form
                for number, instance in self._instances():
                    subject.construction = number
                    if self._can_be_called(plan.sizes, instance):
                        return True
                    if self.is_over:
                        return False
        except CannotConstruct as error:
            self.attempts.append(attempt(error.__cause__ or error, _passed(subject, constructor=True)))
        return False

    def _instances(self) -> Iterator[tuple[int, Any]]:
        subject = self.subject
        if not subject.is_constructed:
            yield 0, subject.target
            return
        yield from subject.constructor.instances(subject.target, subject.kind, subject.plan.sizes)

    def _can_be_called(self, sizes: Sizes, instance: Any) -> bool:
        """Try the sizes of the plan, then those that the object has."""
        subject = self.subject
        observed = sizes
        if isinstance(instance, nn.Module):
            observed = observed_sizes(instance, subject.kind, sizes)
        for one in dict.fromkeys((sizes, observed)):
            subject.sizes = one
            try:
                _try_to_call(subject)
            except (Exception, TooSlow) as error:  # the checked code may raise anything
                self.attempts.append(attempt(error, _passed(subject)))
            else:
                return True
        subject.sizes = sizes
        return False

    @property
    def found_crash(self) -> bool:
        """Whether the first attempt shows a mistake that other arguments cannot change."""
        return crash(self.attempts, all_known=False) is not None

    def conclusion(self) -> CannotCall:
        """Why it cannot be called: a mistake in the checked code, or no fitting arguments were found."""
        subject, attempts = self.subject, self.attempts
        if is_unfinished(subject.source_code, attempts):
            return CannotCall("it is not written yet")
        first = str(attempts[0].error) if attempts else ""
        # A fixed length may not fit: it may count a class token, or be that of something else.
        has_length = "longest" in subject.constructor_roles.values() and re.search("size|shape", first)
        found = crash(attempts, all_known=_all_known(subject) and not has_length)
        if found is not None:
            return CannotCall("it crashes", crash_finding(found))
        return CannotCall(_reason(attempts))


def _all_known(subject: Subject) -> bool:
    """Whether the meaning of each argument is known; that of `*args` and `**kwargs` is not."""
    try:
        parameters = [*subject.parameters, *inspect.signature(subject.target).parameters.values()]
        roles = [*subject.roles.values(), *subject.constructor_roles.values()]
    except (CannotConstruct, CannotCall, ValueError):
        return False
    if not all(PLAIN_NAME.fullmatch(p.name.lower()) for p in subject.parameters):
        return False
    return None not in roles and not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def _reason(attempts: list[Attempt]) -> str:
    if not attempts:
        return "no values are known for its arguments"
    own = [one for one in attempts if isinstance(one.error, CannotCall)]
    first = (own or attempts)[0]
    if own:
        return f"no fitting arguments were found: {first.error}"
    where = f" in line {first.line}" if first.line else ""
    if first.uses_placeholder and not isinstance(first.error, ImportError):
        return f"it needs a package that is not installed{where}: {first.code}"
    return f"no fitting arguments were found; the first attempt ends{where} with {first.message}"


def _passed(subject: Subject, *, constructor: bool = False) -> str:
    """What the object was called with."""
    sizes, form = subject.plan.sizes, subject.form
    if constructor:
        return f"constructed with width {sizes.width}, {sizes.heads} heads and other small sizes"
    shape = {
        "tokens": f"token ids of shape ({sizes.batch}, {sizes.queries})",
        "images": f"images of shape ({sizes.batch}, {sizes.channels}, {sizes.image[0]}, {sizes.image[1]})",
    }.get(form.inputs, f"inputs of shape ({sizes.batch}, {sizes.queries}, {sizes.width})")
    return f"called with {shape}"


def _takes_only_sizes(subject: Subject) -> bool:
    """Whether its arguments are sizes: those of a causal mask, or of a function that returns positions."""
    if subject.kind.reads_size:
        return True
    if not subject.kind.is_positional:
        return False
    if subject.is_module:
        return not subject.parameters
    parameters = inspect.signature(subject.target).parameters.values()
    return len([p for p in parameters if p.default is p.empty]) == 2


@torch.no_grad()
def _find_position_axis(subject: Subject) -> None:
    """Find whether the first axis is that of the positions: (T, B, D), if positions mix along it."""
    form = subject.form
    if form.inputs not in ("vectors", "tokens") or form.query != "BTD" or form.time_first or not form.batched:
        return
    if subject.kind.reads_scores or subject.kind.is_feed_forward or subject.kind.is_bare:
        return
    over_batch, over_positions = (_mixes(subject, axis) for axis in (0, 1))
    if not over_batch or over_positions:
        return
    subject.form = replace(form, time_first=True)
    try:
        if not _mixes(subject, 0):
            subject.notes.append("the first axis of its tensors is the axis of the positions: (T, B, D)")
            return
    except Exception:  # the other layout does not fit
        pass
    subject.form = form


def _mixes(subject: Subject, axis: int) -> bool:
    """Whether a change at one index of an axis changes the output at another index."""
    model, case = subject.model(), subject.case()
    x = case.x.clone()
    first = x.select(axis, 0)
    if subject.kind.is_positional and x.is_floating_point():
        out = subject.call(model, Case(torch.zeros_like(x))).out
        return not torch.allclose(out.select(axis, 0), out.select(axis, 1))
    if x.is_floating_point():
        first += torch.randn(first.shape)
    else:
        first.copy_(1 + first % (subject.sizes.vocabulary - 1))
    before, after = subject.call(model, case).out, subject.call(model, replace(case, x=x)).out
    if before.dim() <= axis:
        return True
    rest = [t.narrow(axis, 1, t.shape[axis] - 1) for t in (before, after)]
    return not torch.allclose(rest[0], rest[1], atol=1e-5, equal_nan=True)


@torch.no_grad()
def _try_to_call(subject: Subject) -> None:
    with time_limit(CALL_SECONDS):
        model, case = subject.model(), subject.case()
    masks = [mask for mask in subject.masks if mask.role != "state"]
    error: BaseException | None = None
    # If masks are needed, each format of a mask that hides nothing is tried.
    for mask_format in [None, BY_NAME, *(formats_for("mask", "mask") if masks else [])]:
        if mask_format is not None and not _needs_mask(subject, error):
            break
        for mask in masks:
            mask.required = mask_format is not None
            mask.format = _format_of(mask, mask_format)
        try:
            with time_limit(CALL_SECONDS):
                _call_once(subject, model, case)
        except (Exception, TooSlow) as raised:  # the checked code may raise anything
            error = error or raised
        else:
            is_required = any(mask.name in _required(subject) for mask in masks)
            if error is not None and not is_required and not is_refusal(error):
                subject.crash = attempt(error, _passed(subject) + ", without a mask")
            return
    assert error is not None
    raise error


def _format_of(mask: MaskArgument, mask_format: MaskFormat | None) -> MaskFormat | None:
    """The format of one of several masks: of lengths, of this format, or as its name says."""
    if mask_format is not None and mask.role == "lengths":
        return MaskFormat("lengths", "B")
    if mask_format is BY_NAME:
        is_causal = re.search("causal|autoreg|future|subseq|look|tri[lu]", mask.name.lower())
        layout = "TS" if is_causal else "BS" if "pad" in mask.name.lower() else "BTS"
        return MaskFormat("bool+", layout)
    return mask_format


def _required(subject: Subject) -> list[str]:
    return [p.name for p in subject.parameters if p.default is p.empty]


def _needs_mask(subject: Subject, error: BaseException | None) -> bool:
    """Whether a mask is a required argument, or its default None is used like a tensor."""
    is_required = any(mask.name in _required(subject) for mask in subject.masks)
    is_demanded = error is not None and is_refusal(error) and "mask" in attempt(error, "").code
    return is_required or is_demanded or "NoneType" in str(error)


def _call_once(subject: Subject, model: Any, case: Case) -> None:
    try:
        result = subject.call(model, case)
        if subject.kind.is_decoder and result.out.shape[1:2] == (case.keys,) != case.x.shape[1:2]:
            _swap_source_and_target(subject)
            result = subject.call(model, case)
        _require_shape(subject, result, case)
        if subject.form.inputs == "images":
            subject.sizes = fitted_sizes(model, result.out, subject.kind, subject.sizes)
            takes_number = any(constructor_role(p.name) == "patches" for p in subject.parameters)
            if takes_number and result.out.shape[1:2] == (subject.sizes.patches**2,):
                subject.sizes = subject.sizes.replace(patches_per_side=True)
    except CannotCall:
        # Without its targets, a language model may return the last position only.
        names = [p.name for p in subject.parameters if p.default is None and call_role(p.name) == "target"]
        if not subject.kind.reads_tokens or subject.form.inputs != "tokens" or not names:
            raise
        subject.targets = names[0]
        try:
            _require_shape(subject, subject.call(model, case), case)
        except Exception:
            subject.targets = None
            raise


def _swap_source_and_target(subject: Subject) -> None:
    """In `forward(x, y, …)`, x may be the memory, and y the target."""
    other = {"x": "source", "target": "source", "source": "x"}
    subject.roles = {name: other.get(role or "", role) for name, role in subject.roles.items()}
    subject.masks = subject.mask_arguments()


def _require_shape(subject: Subject, result: Result, case: Case) -> None:
    if subject.form.inputs in ("images", "size"):
        return
    out, x = result.out, case.x
    if out.is_floating_point() and out.numel() and not out.isfinite().any():
        raise CannotCall("its output is not finite")
    if out.dim() < 2 or out.shape[:2] != x.shape[:2]:
        raise CannotCall(
            f"its output for an input of shape {tuple(x.shape)} has the shape {tuple(out.shape)}"
        )
