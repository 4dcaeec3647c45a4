"""Promises about positional encodings: numbers that a formula gives."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.argument_names import build_role
from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.op_trace import same_numbers
from limelight.check.promises.permutation import wrong_axis
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers

LENGTH = 7  # positions that are compared


def sinusoids(length: int, width: int) -> Tensor:
    """-> (T, D): sin(t / 10000^(2i/D)) and cos of the same, in turn (Vaswani et al. 2017, section 3.5)"""
    place = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    table = torch.zeros(length, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
    return table.float()


@torch.no_grad()
def added(subject: Subject) -> tuple[Tensor, Tensor, Tensor]:
    """-> (T, D) what each position gets, (B, T, D) the input, (B, T, D) the output"""
    model = subject.model()
    case = subject.case(queries=LENGTH)
    out = subject.call(model, case).out
    if subject.form.inputs == "tokens":
        return out[0], case.x, out
    zero = subject.call(model, Case(torch.zeros_like(case.x))).out
    return zero[0], case.x, out


def is_table(subject: Subject) -> bool:
    """A function that gives a table, instead of a layer that adds one."""
    return not subject.is_module and subject.form.inputs == "size"


def table_of(subject: Subject) -> Tensor:
    """-> (T, D)"""
    arguments: dict[str, Any] = {}
    sizes = subject.sizes
    required = [p for p in subject.parameters if p.default is p.empty]
    for p in required:
        role = build_role(p.name, is_layerless=True)
        arguments[p.name] = {"width": sizes.width, "longest": LENGTH}.get(role or "")
    orders = [[LENGTH, sizes.width], [sizes.width, LENGTH]]
    tries = (
        [arguments]
        if None not in arguments.values() and len(set(arguments.values())) == len(required)
        else []
    )
    tries += [dict(zip(arguments, order, strict=False)) for order in orders if len(required) == 2]
    for one in tries:
        try:
            found = subject.target(**one)
        except Exception:  # another order
            continue
        found = torch.as_tensor(found[0] if isinstance(found, (tuple, list)) else found).float().squeeze()
        if found.dim() == 2 and tuple(found.shape) == (LENGTH, sizes.width):
            return found
        if found.dim() == 2 and tuple(found.shape) == (sizes.width, LENGTH):
            return found.T
    raise ValueError("it gives no table of (length, width)")


def _values(subject: Subject) -> Tensor:
    return table_of(subject) if is_table(subject) else added(subject)[0]


def _is_learned(subject: Subject) -> bool:
    if not subject.is_module:
        return False
    return any(p.requires_grad for p in subject.model().parameters())


def _formula(subject: Subject) -> Outcome:
    if _is_learned(subject):
        return inapplicable("its positions are learned")
    table, width = _values(subject), subject.sizes.width
    right = sinusoids(LENGTH, width)
    halves = torch.cat([right[:, 0::2], right[:, 1::2]], 1)
    turned = torch.stack([right[:, 1::2], right[:, 0::2]], 2).flatten(1)
    root = width**0.5
    for one in (right, halves, turned, torch.cat([right[:, 1::2], right[:, 0::2]], 1)):
        if torch.allclose(table, one, atol=1e-4) or torch.allclose(table, one * root, atol=1e-4):
            return KEPT
    # Another common form divides by (number of rates - 1).
    rate = 10000.0 ** (-torch.arange(width // 2) / max(1, width // 2 - 1))
    steep = torch.arange(LENGTH).unsqueeze(1) * rate
    if torch.allclose(table, torch.cat([steep.sin(), steep.cos()], 1), atol=1e-3):
        return KEPT
    wrong = (table - right).abs() > 1e-4
    t, d = wrong.nonzero()[0].tolist() if wrong.any() else (0, 0)
    return broken(
        f"position {t} of width {width}",
        f"sin and cos of {t} / 10000^(2i/{width}): {numbers(right[t, : max(4, d + 1)])} …",
        f"{numbers(table[t, : max(4, d + 1)])} …",
    )


def _differ(subject: Subject) -> Outcome:
    if subject.form.inputs == "tokens":
        return inapplicable("it takes tokens")
    turned = None if is_table(subject) else wrong_axis(subject)
    if turned is not None:
        return Outcome(
            turned.verdict,
            "x of (B, T, D), all zeros",
            "every position gets numbers of its own",
            "every sequence of the batch gets its own, and all of its positions the same",
            turned.hint,
        )
    table = _values(subject)
    for t in range(1, len(table)):
        for s in range(t):
            if torch.allclose(table[t], table[s], atol=1e-6):
                return broken(
                    f"positions {s} and {t}",
                    "each gets numbers of its own",
                    f"both get {numbers(table[t, :4])} …",
                )
    return KEPT


def _is_added(subject: Subject) -> Outcome:
    if is_table(subject) or subject.form.inputs == "tokens":
        return inapplicable("it adds nothing: it gives a table")
    table, x, out = added(subject)
    if torch.allclose(out - x, table.expand_as(out), atol=1e-4):
        return KEPT
    root = subject.sizes.width**0.5
    if torch.allclose(out - x * root, table.expand_as(out), atol=1e-4):
        return KEPT
    if torch.allclose(out, table.expand_as(out), atol=1e-5) and same_numbers(out[0], table):
        parameters = [p for p in subject.parameters if p.default is p.empty]
        if len(parameters) == 1 and out.shape[0] == 1:
            return inapplicable("it gives a table for its input's length")
    return broken(
        f"x = {numbers(x[0, 1, :3])} … at position 1, whose encoding is {numbers(table[1, :3])} …",
        f"x + encoding: {numbers((x + table)[0, 1, :3])} …",
        f"{numbers(out[0, 1, :3])} …",
    )


def _buffer(subject: Subject) -> Outcome:
    """Moved to another device, the layer brings its table along."""
    if not isinstance(subject.model(), nn.Module):
        return inapplicable("it is a function")
    model = subject.model().to("meta")
    try:
        subject.call(model, subject.case().each(lambda t: t.to("meta")))
    except NotImplementedError:
        return inapplicable("it could not be tried without a second device")
    except RuntimeError as error:
        if "device" not in str(error):
            return inapplicable("it could not be tried without a second device")
        plain = [name for name, value in vars(model).items() if isinstance(value, Tensor)]
        return broken(
            "the module is moved to another device, and its input with it",
            "its table moves along",
            f"{', '.join(plain) or 'a tensor'} stays behind: {str(error).splitlines()[0]}",
        )
    return KEPT


def _table_type(subject: Subject) -> Outcome:
    if not is_table(subject) or "dtype" not in [p.name for p in subject.parameters]:
        return inapplicable("it is asked for no type")
    made = subject.target(LENGTH, subject.sizes.width, dtype=torch.float64)
    if made.dtype == torch.float64:
        return KEPT
    return broken("dtype=torch.float64", "a table of float64", str(made.dtype).removeprefix("torch."))


def _tables_inside(subject: Subject) -> Outcome:
    """A table of sinusoids inside a larger model."""
    width = subject.sizes.width
    for name, table in _tensors(subject.model()):
        rows = table.detach().squeeze()
        if rows.dim() != 2 or rows.shape[1] != width or len(rows) < 3 or table.requires_grad:
            continue
        begins = torch.tensor([0.0, 1.0]).repeat(width // 2)
        if torch.allclose(rows[0], begins, atol=1e-6) and not torch.allclose(
            rows, sinusoids(len(rows), width), atol=1e-3
        ):
            return broken(
                f"{name}, position 1",
                f"{numbers(sinusoids(2, width)[1, :4])} …",
                f"{numbers(rows[1, :4])} …",
            )
    return KEPT if subject.form.inputs == "tokens" else inapplicable("it has no table of positions")


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Buffers, frozen parameters, and tensors that are plain attributes."""
    plain = [
        (name, value)
        for part in model.modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor)
    ]
    return [*model.named_buffers(), *model.named_parameters(), *plain]


POSITIONS = (
    Promise(
        "positions-formula",
        "the values are those of the formula",
        _formula,
        "even columns sin, odd ones cos (0::2 and 1::2, not 0:2), the rate of a pair is 10000^(-2i/width)",
    ),
    Promise(
        "positions-differ",
        "every position gets values of its own",
        _differ,
        "the table must be made with arange over positions, and sliced along the positions, not the batch",
    ),
    Promise(
        "positions-added",
        "they are added to the input",
        _is_added,
        "x + table[:, :x.shape[1]], for every sequence of the batch",
    ),
    Promise(
        "positions-buffer",
        "the table moves with the module",
        _buffer,
        "self.register_buffer('table', table), not self.table = table",
    ),
)

TYPED = (Promise("table-type", "a table has the type that was asked for", _table_type, "pass the type on"),)

INSIDE = (
    Promise(
        "positions-formula",
        "a table of positions has the values of the formula",
        _tables_inside,
        "even columns sin, odd ones cos, the rate of a pair is 10000^(-2i/width)",
    ),
)


def takes_size(target: Any) -> bool:
    """Whether a function of positions is asked for a length and a width, and not for an input."""
    parameters = [p for p in inspect.signature(target).parameters.values() if p.default is p.empty]
    return len(parameters) == 2
