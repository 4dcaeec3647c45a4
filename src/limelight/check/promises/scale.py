"""The promise about the scale of the scores."""

import math
import re

from torch import nn

from limelight.check.harness.signature import FIRST_STATE
from limelight.check.harness.subject import Subject
from limelight.check.instruments.parts import HEADS_ARE_MIXED, attentions_of, is_no_transformer, mixes_heads
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable
from limelight.check.report import Finding


def _scale(subject: Subject) -> Finding:
    if subject.kind.is_additive:
        return inapplicable("additive scores are not scaled")
    is_luong = "luong" in subject.name.lower()
    if is_luong or FIRST_STATE in subject.roles.values() or is_no_transformer(subject.model()):
        return inapplicable("the scores of a recurrent decoder are not scaled (Luong et al. 2015)")
    if _normalises_queries(subject):
        return inapplicable("the queries and keys are normalised")
    if mixes_heads(subject):
        return inapplicable(HEADS_ARE_MIXED)
    found = [one for one in attentions_of(subject) if one.scale is not None and one.width]
    if not found:
        return inapplicable("the product of queries and keys was not found in its computation")
    for one in found:
        assert one.scale is not None
        assert one.width is not None
        if abs(one.scale * math.sqrt(one.width) - 1) > 1e-3:
            if _is_learned(subject, one.scale):
                return inapplicable("the scale is a parameter, which is learned")
            return broken(
                f"queries and keys of width {one.width} in each head",
                f"q·k × {1 / math.sqrt(one.width):.4f} (1/√{one.width})",
                f"q·k × {one.scale:.4f}{_explained(one.scale, one.width, subject)}",
                place=one.scaling.place if one.scaling else None,
            )
    return KEPT


def _normalises_queries(subject: Subject) -> bool:
    model = subject.model()
    names = [name for name, _ in model.named_modules()] if isinstance(model, nn.Module) else []
    return any(re.search(r"(^|[._])(q|k|query|key|qk)_?norm", name.lower()) for name in names)


def _is_learned(subject: Subject, scale: float) -> bool:
    """Whether the factor is the value of a parameter, or its inverse."""
    model = subject.model()
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    values = [value for p in parameters if p.numel() <= subject.sizes.heads for value in p.flatten().tolist()]
    return any(math.isclose(scale, factor, rel_tol=1e-3) for v in values if v for factor in (v, 1 / v))


def _explained(scale: float, width: int, subject: Subject) -> str:
    """The usual mistake that gives this scale."""
    sizes = subject.sizes
    mistakes = {
        1.0: "not scaled",
        1 / width: f"1/{width}: divided by d, not by √d",
        math.sqrt(width): "multiplied by √d",
        1 / math.sqrt(sizes.width): f"1/√{sizes.width}: the width of the model, not of one head",
        1 / math.sqrt(sizes.queries): f"1/√{sizes.queries}: the number of queries",
        1 / math.sqrt(sizes.keys): f"1/√{sizes.keys}: the number of keys",
        1 / math.sqrt(sizes.batch): f"1/√{sizes.batch}: the batch size",
        1 / math.sqrt(sizes.heads): f"1/√{sizes.heads}: the number of heads",
        1 / width**2: "divided by d²",
    }
    near = [mistake for value, mistake in mistakes.items() if abs(scale - value) < 1e-3 * value]
    return f" ({near[0]})" if near else ""


PROMISES = (
    Promise(
        "scale",
        "scores are q·k/√d, where d is the width of one head",
        _scale,
        "d is the last axis of the queries after the split into heads, not before it; divide by its square "
        "root, not by d",
    ),
)
