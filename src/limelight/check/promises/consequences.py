"""One mistake, one finding: a promise that only fails because another one is broken is not judged."""

from collections.abc import Sequence

from limelight.check.promises.promise import inapplicable
from limelight.check.report import Finding

# If the promise on the left is broken, its mistake decides the results of those on the right, too.
CONSEQUENCES = {
    "softmax-axis": "rows-sum-to-one query-matters masked-weight mask-polarity right-lengths "
    "masked-values-leak large-scores heads-mix-positions permutation causality",
    "mask-polarity": "masked-weight right-lengths masked-values-leak large-scores",
    "right-lengths": "masked-weight masked-values-leak",
    "masked-weight": "mask-polarity masked-values-leak large-scores",
    "heads-mix-positions": "permutation causality masked-values-leak",
    "causality": "rows-sum-to-one permutation",
    "positions-buffer": "dtype-device",
}


def without_consequences(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, with the verdict n/a for each promise that a broken one decides."""
    found = {finding.promise: finding for finding in findings}
    for cause, names in CONSEQUENCES.items():
        if cause not in found or found[cause].verdict != "FAIL":
            continue
        for name in names.split():
            if name in found and found[name].verdict != "n/a":
                named = {"promise": name, "statement": found[name].statement}
                found[name] = inapplicable(f"it cannot be judged: see {cause}").model_copy(update=named)
    return tuple(found.values())
