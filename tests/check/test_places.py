"""Findings have the line of the checked code that causes them."""

from pathlib import Path

import pytest
import torch

from limelight.check.instruments.op_trace import trace
from limelight.check.isolation.parent import check_file
from limelight.check.places import place_of_error
from limelight.check.report import Finding

PARTS = """import math
from torch import nn

def attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -math.inf)
    weights = scores.softmax(-1)
    return weights @ v
"""
HEADS = """from parts import attention
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        b, t, _ = x.shape
        qkv = self.qkv(x).reshape(b, t, self.num_heads, -1).transpose(1, 2).chunk(3, -1)
        mask = None if mask is None else mask[:, None]
        mixed = attention(*qkv, mask)
        return self.out(mixed.transpose(1, 2).reshape(b, t, -1))
"""


def findings(folder: Path, checked: str, old: str, new: str) -> list[Finding]:
    for name, code in (("parts.py", PARTS), ("heads.py", HEADS)):
        assert old in PARTS + HEADS
        (folder / name).write_text(code.replace(old, new))
    (report,) = check_file(folder / checked).reports
    assert not report.trouble
    return report.broken


@pytest.mark.parametrize(
    ("promise", "checked", "old", "new", "file"),
    [
        ("scale", "parts.py", "math.sqrt(q.shape[-1])", "q.shape[-1]", ""),
        ("scale", "heads.py", "math.sqrt(q.shape[-1])", "q.shape[-1]", "parts.py"),
        ("softmax-axis", "parts.py", "softmax(-1)", "softmax(-2)", ""),
        ("masked-weight", "parts.py", "-math.inf", "0.0", ""),
        ("mask-has-effect", "parts.py", "scores = scores.masked", "scores.masked", ""),
        ("mask-has-effect", "heads.py", "attention(*qkv, mask)", "attention(*qkv)", ""),
        ("projection-unused", "heads.py", "self.out = ", "self.new = nn.Linear(3, 3); self.out = ", ""),
    ],
)
def test_a_finding_has_the_line_of_the_code(
    tmp_path: Path, promise: str, checked: str, old: str, new: str, file: str
) -> None:
    (finding,) = (one for one in findings(tmp_path, checked, old, new) if one.promise == promise)
    lines = (tmp_path / (file or checked)).read_text().splitlines()
    assert (finding.file, finding.cell) == (file, 0)
    assert finding.code == lines[finding.line - 1].strip()
    assert new in finding.code


def test_correct_code_has_no_findings(tmp_path: Path) -> None:
    assert findings(tmp_path, "heads.py", "softmax(-1)", "softmax(-1)") == []


def test_operations_outside_the_checked_code_have_no_line() -> None:
    x = torch.ones(3)
    _, (own,) = trace(lambda: x.exp())
    _, (other,) = trace(x.exp)
    assert own.place is not None
    assert other.place is None


def test_an_error_has_the_innermost_line_of_the_checked_code() -> None:
    try:
        torch.nn.Linear(2, 3)(torch.ones(4))
    except RuntimeError as error:
        place = place_of_error(error)
    assert place is not None
    assert place[0] == __file__
