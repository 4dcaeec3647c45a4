"""Promises about positional encodings: their values, and how they are added."""

import re
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.batch_axis import POSITIONS_FIRST_HINT, positions_first_verdict
from limelight.check.instruments.op_trace import same_values, trace
from limelight.check.instruments.rotation import is_rotary
from limelight.check.instruments.second_device import device_fault
from limelight.check.places import Place
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding

LENGTH = 7  # the number of positions that are compared


def sinusoids(length: int, width: int) -> Tensor:
    """-> (T, D): sin(t / 10000^(2i/D)) and cos of the same, alternating (Vaswani et al. 2017, section 3.5)"""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    table = torch.zeros(length, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = torch.sin(position * frequency), torch.cos(position * frequency)
    return table.float()


def _length(subject: Subject) -> int:
    """The number of positions that are compared: those of the table if it is added as a whole."""
    return subject.sizes.longest if subject.sizes.queries == subject.sizes.longest else LENGTH


@torch.no_grad()
def _added(subject: Subject) -> tuple[Tensor, Tensor, Tensor]:
    """-> (T, D) the encoding of each position, (B, T, D) the input, (B, T, D) the output"""
    model = subject.model()
    case = subject.case(queries=_length(subject))
    out = subject.call(model, case).out
    if subject.form.inputs == "tokens":
        return out[0], case.x, out
    zero = subject.call(model, Case(torch.zeros_like(case.x))).out
    return zero[0], case.x, out


def _table_of(subject: Subject) -> Tensor:
    """-> (T, D): the table that a function, or a layer without arguments, returns"""
    if subject.is_module:
        return torch.as_tensor(subject.model()()).float().squeeze()[:LENGTH]
    arguments: dict[str, Any] = {}
    sizes = subject.sizes
    required = [p for p in subject.parameters if p.default is p.empty]
    for p in required:
        arguments[p.name] = {"width": sizes.width, "longest": LENGTH}.get(constructor_role(p.name) or "")
    orders = [[LENGTH, sizes.width], [sizes.width, LENGTH]]
    values = arguments.values()
    are_known = None not in values and len(set(values)) == len(required)
    tries = [arguments] if are_known else []
    tries += [dict(zip(arguments, order, strict=False)) for order in orders if len(required) == 2]
    for one in tries:
        try:
            found = subject.target(**one)
        except Exception:  # the other order
            continue
        found = torch.as_tensor(found[0] if isinstance(found, (tuple, list)) else found).float().squeeze()
        if found.dim() == 2 and tuple(found.shape) == (LENGTH, sizes.width):
            return found
        if found.dim() == 2 and tuple(found.shape) == (sizes.width, LENGTH):
            return found.T
    raise ValueError("it returns no table of shape (length, width)")


def _values(subject: Subject) -> Tensor:
    return _table_of(subject) if subject.returns_table else _added(subject)[0]


def _is_learned(subject: Subject) -> bool:
    if not subject.is_module:
        return False
    return any(p.requires_grad for p in subject.model().parameters())


def _formula(subject: Subject) -> Finding:
    if _is_learned(subject):
        return inapplicable("its positions are learned")
    if is_rotary(subject):
        return inapplicable("it rotates its input")
    table, width = _values(subject), subject.sizes.width
    if table.dim() != 2 or table.shape[1] != width or not _has_sinusoids(subject, table):
        return inapplicable("its values are no sines and cosines")
    right = sinusoids(len(table), width)
    sines, cosines = right[:, 0::2], right[:, 1::2]
    halves = torch.cat([sines, cosines], 1)
    swapped = torch.stack([cosines, sines], 2).flatten(1)
    root = width**0.5
    for one in (right, halves, torch.cat([cosines, sines], 1)):
        if torch.allclose(table, one, atol=1e-4) or torch.allclose(table, one * root, atol=1e-4):
            return KEPT
    if torch.allclose(table, swapped, atol=1e-4) or torch.allclose(table, swapped * root, atol=1e-4):
        return warned(
            f"position 1 of width {width}",
            f"sines in even columns, cosines in odd ones: {numbers(right[1, :4])} …",
            f"the other way round: {numbers(table[1, :4])} …",
            "a model learns as well with both; but it is not the formula of the paper",
            place=_place_of_sine(subject),
        )
    # Another common form divides by (number of frequencies - 1).
    frequency = 10000.0 ** (-torch.arange(width // 2) / max(1, width // 2 - 1))
    angle = torch.arange(len(table)).unsqueeze(1) * frequency
    if torch.allclose(table, torch.cat([angle.sin(), angle.cos()], 1), atol=1e-3):
        return KEPT
    wrong = (table - right).abs() > 1e-4
    t, d = wrong.nonzero()[0].tolist() if wrong.any() else (0, 0)
    return broken(
        f"position {t} of width {width}",
        f"sin and cos of {t} / 10000^(2i/{width}): {numbers(right[t, : max(4, d + 1)])} …",
        f"{numbers(table[t, : max(4, d + 1)])} …",
        place=_place_of_sine(subject),
    )


def _has_sinusoids(subject: Subject, table: Tensor) -> bool:
    """Whether the values are computed as sines and cosines, or begin like them, with zeros and ones."""
    if _place_of_sine(subject) is not None or re.search(r"\b(sin|cos)\b", subject.source_code):
        return True
    first, largest = table[0], float(table.abs().max())
    is_zero, is_one = first.abs() < 1e-6, (first - largest).abs() < 1e-4
    return bool((is_zero | is_one).all()) and bool(is_one.any())


def _place_of_sine(subject: Subject) -> Place | None:
    """The line that computes the sines, in the constructor or in the call."""
    _, steps = trace(lambda: _values(subject))
    sines = [step for step in steps if step.name.rstrip("_") in ("sin", "cos")]
    return sines[0].place if sines else None


def _differ(subject: Subject) -> Finding:
    if subject.form.inputs == "tokens":
        return inapplicable("it takes tokens")
    verdict = None if subject.returns_table else positions_first_verdict(subject)
    if verdict is not None:
        return Finding(
            verdict=verdict,
            example="x of (B, T, D), all zeros",
            expected="every position gets its own values",
            got="every sequence of the batch gets its own values, the same at all positions",
            hint=POSITIONS_FIRST_HINT,
        )
    table = _rotated_ones(subject) if is_rotary(subject) else _values(subject)
    for t in range(1, len(table)):
        for s in range(t):
            if torch.allclose(table[t], table[s], atol=1e-6):
                return broken(
                    f"positions {s} and {t}",
                    "each gets its own values",
                    f"both get {numbers(table[t, :4])} …",
                )
    return KEPT


def _is_added(subject: Subject) -> Finding:
    if subject.returns_table or subject.form.inputs == "tokens":
        return inapplicable("it returns a table and adds nothing")
    if is_rotary(subject):
        return inapplicable("it rotates its input")
    table, x, out = _added(subject)
    if torch.allclose(out - x, table.expand_as(out), atol=1e-4):
        return KEPT
    root = subject.sizes.width**0.5
    if torch.allclose(out - x * root, table.expand_as(out), atol=1e-4):
        return KEPT
    if torch.allclose(out, table.expand_as(out), atol=1e-5) and same_values(out[0], table):
        required = [p for p in subject.parameters if p.default is p.empty]
        result = subject.call(subject.model(), subject.case())
        if len(required) == 1 and (out.shape[0] == 1 or result.shared):
            return inapplicable("it returns a table for the length of its input")
    return broken(
        f"x = {numbers(x[0, 1, :3])} … at position 1, whose encoding is {numbers(table[1, :3])} …",
        f"x + encoding: {numbers((x + table)[0, 1, :3])} …",
        f"{numbers(out[0, 1, :3])} …",
    )


def _rotated_ones(subject: Subject) -> Tensor:
    """-> (T, D): the outputs for an input of ones, whose positions differ only by their rotation"""
    ones = torch.ones_like(subject.case(queries=_length(subject)).x)
    out = subject.call(subject.model(), Case(ones)).out
    return out[0] if out.shape == ones.shape else out.reshape(-1, out.shape[-1])


def _buffer(subject: Subject) -> Finding:
    """If the module is moved to another device, its table moves, too."""
    if not isinstance(subject.model(), nn.Module):
        return inapplicable("it is a function")
    fault = device_fault(subject, subject.case(), {})
    if fault is None or not fault.attribute:
        return KEPT
    conclude = warned if fault.is_convention else broken
    return conclude(
        "the module and its input are moved to a GPU",
        "the table moves, too",
        f"on a GPU: {fault.cause}",
        place=fault.place,
    )


def _table_type(subject: Subject) -> Finding:
    if not subject.returns_table or "dtype" not in [p.name for p in subject.parameters]:
        return inapplicable("it takes no dtype")
    table = subject.target(LENGTH, subject.sizes.width, dtype=torch.float64)
    if table.dtype == torch.float64:
        return KEPT
    return broken("dtype=torch.float64", "a table of float64", str(table.dtype).removeprefix("torch."))


def _formula_inside(subject: Subject) -> Finding:
    """A table of sinusoids inside a larger model."""
    width = subject.sizes.width
    for name, table in _tensors(subject.model()):
        rows = table.detach().squeeze()
        if rows.dim() != 2 or rows.shape[1] != width or len(rows) < 3 or table.requires_grad:
            continue
        first_row = torch.tensor([0.0, 1.0]).repeat(width // 2)
        if torch.allclose(rows[0], first_row, atol=1e-6) and not torch.allclose(
            rows, sinusoids(len(rows), width), atol=1e-3
        ):
            _, steps = trace(subject.model)
            sines = [step for step in steps if step.name.rstrip("_") in ("sin", "cos")]
            return broken(
                f"{name}, position 1",
                f"{numbers(sinusoids(2, width)[1, :4])} …",
                f"{numbers(rows[1, :4])} …",
                place=sines[0].place if sines else None,
            )
    return KEPT if subject.form.inputs == "tokens" else inapplicable("it has no table of positions")


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Buffers, parameters, and tensors that are plain attributes."""
    plain = [
        (name, value)
        for part in model.modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor)
    ]
    return [*model.named_buffers(), *model.named_parameters(), *plain]


_FORMULA_HINT = (
    "even columns are sin and odd ones cos (0::2 and 1::2, not 0:2), with the frequency 10000^(-2i/width)"
)

PROMISES = (
    Promise("positions-formula", "the values are those of the sinusoidal formula", _formula, _FORMULA_HINT),
    Promise(
        "positions-differ",
        "every position gets its own values",
        _differ,
        "build the table from arange over the positions; slice it along the positions, not along the batch",
    ),
    Promise(
        "positions-added",
        "the encoding of each position is added to the input",
        _is_added,
        "return x + table[:, :x.shape[1]], for every sequence of the batch",
    ),
    Promise(
        "positions-buffer",
        "the table moves to another device with the module",
        _buffer,
        "self.table = table is not moved by .to(device): use self.register_buffer('table', table)",
    ),
    Promise(
        "table-type",
        "the table has the requested dtype",
        _table_type,
        "the argument dtype is ignored: convert the table before it is returned",
    ),
    Promise(
        "positions-formula",
        "a table of positions has the values of the sinusoidal formula",
        _formula_inside,
        _FORMULA_HINT,
        variant="inside",
    ),
)
