"""Whether the code of an object expects the batch on the first axis of its tensors."""

import re

from limelight.check.harness.subject import Subject
from limelight.check.report import Verdict

BATCH = r"(b|bs|n|bsz|batch\w*|num_?batch\w*|nbatches)"
POSITIONS = r"(t|s|l|seq\w*|\w*len\w*|(num_?)?steps?|(n_?)?tokens?|places?|positions?|time|(num_?)?patches)"
POSITIONS_FIRST_HINT = (
    "nn.MultiheadAttention and nn.Transformer expect (T, B, D) unless they are constructed with "
    "batch_first=True; a table of positions of shape (T, 1, D) is for such inputs. If your inputs are "
    "(T, B, D), ignore this"
)


def positions_first_verdict(subject: Subject) -> Verdict | None:
    """For code that expects (T, B, D): FAIL if its source mentions (batch, length, ...), warn if unclear.

    None if it mentions (length, batch, ...), or expects (B, T, D).
    """
    if not subject.form.time_first or subject.form.query != "BTD":
        return None
    text = subject.source_code.lower()
    batch_first = len(re.findall(rf"\b{BATCH}\s*,\s*{POSITIONS}\b", text))
    positions_first = len(re.findall(rf"\b{POSITIONS}\s*,\s*{BATCH}\b", text))
    if batch_first == positions_first:
        return "warn"
    return "FAIL" if batch_first > positions_first else None
