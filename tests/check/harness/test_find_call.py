"""How an object is called: whose mistake an error is, what is replaced, and what is noted."""

import signal
import sys
from pathlib import Path

import pytest
from classroom import NUMBERS, broken, report_of

from limelight.check.harness.time_limit import TooSlow, time_limit

pytestmark = pytest.mark.slow

ATTENTION = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split_heads(self, x):
        return x.view(x.shape[0], -1, self.num_heads, self.d_k).transpose(1, 2)

    def combine_heads(self, x):
        return x.transpose(1, 2).reshape(x.shape[0], -1, self.num_heads * self.d_k)

    def forward(self, Q, K, V, mask=None):
        q, k, v = self.split_heads(self.W_q(Q)), self.split_heads(self.W_k(K)), self.split_heads(self.W_v(V))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        return self.W_o(self.combine_heads(scores.softmax(-1) @ v))
"""
FIXED = """
import torch.nn as nn

class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48))

    def forward(self, x):
        return self.layers(x)
"""


def test_correct_code_is_called_at_the_first_attempt(tmp_path: Path) -> None:
    found = report_of(tmp_path, ATTENTION, "MultiHeadAttention")
    assert not found.trouble
    assert broken(found) == []
    assert not [note for note in found.notes if "called with" in note]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("self.combine_heads(scores", "self.combined_heads(scores", "has no attribute 'combined_heads'"),
        ("math.sqrt(self.d_k)", "sqrt(self.d_k)", "name 'sqrt' is not defined"),
        (
            "nn.Linear(d_model, d_model) for",
            "nn.Linear(d_model, bias=True) for",
            "missing 1 required positional",
        ),
        ("super().__init__()", "pass", "before Module.__init__() call"),
    ],
)
def test_an_error_of_the_checked_code_is_a_finding_with_its_line(
    old: str, new: str, error: str, tmp_path: Path
) -> None:
    code = ATTENTION.replace(old, new)
    found = report_of(tmp_path, code, "MultiHeadAttention")
    assert broken(found) == ["runs"]
    (finding,) = found.broken
    assert error in finding.got
    assert finding.code == code.splitlines()[finding.line - 1].strip()
    assert finding.file == ""  # the checked file itself


def test_a_mask_that_is_none_by_default_and_used_like_a_tensor_is_a_finding(tmp_path: Path) -> None:
    code = ATTENTION.replace(
        "        if mask is not None:\n            scores =", "        mask = mask.bool()\n        scores ="
    )
    found = report_of(tmp_path, code, "MultiHeadAttention")
    assert broken(found) == ["runs"]
    assert "NoneType" in found.broken[0].got
    assert "without a mask" in found.broken[0].example
    assert any(finding.verdict == "pass" for finding in found.findings)


def test_code_that_is_not_written_yet_is_no_mistake(tmp_path: Path) -> None:
    begin = ATTENTION.index("        q, k, v =")
    for rest in ("        raise NotImplementedError\n", "        # YOUR CODE HERE\n        pass\n"):
        found = report_of(tmp_path, ATTENTION[:begin] + rest, "MultiHeadAttention")
        assert found.trouble == "it is not written yet"


def test_a_check_of_the_code_that_refuses_our_values_is_no_mistake(tmp_path: Path) -> None:
    code = ATTENTION.replace("        super()", "        assert d_model == 96\n        super()")
    found = report_of(tmp_path, code, "MultiHeadAttention")
    assert found.trouble
    assert not found.findings


def test_fixed_sizes_are_read_off_the_layers(tmp_path: Path) -> None:
    assert broken(report_of(tmp_path, FIXED, "FeedForward")) == []
    linear = report_of(tmp_path, FIXED.replace("nn.ReLU(), ", ""), "FeedForward")
    assert broken(linear) == ["nonlinearity"]


def test_constants_are_replaced_only_during_the_check(tmp_path: Path) -> None:
    code = f"width = 480\n{FIXED}".replace("48, 96", "width, 2 * width").replace("96, 48", "2 * width, width")
    found = report_of(tmp_path, code, "FeedForward")
    assert found.notes == ("constants that were replaced by small sizes: width",)
    assert broken(found) == []
    last = sys.modules[f"submission{next(NUMBERS) - 1}"]
    assert last.width == 480


def test_dropout_that_is_always_active_breaks_no_other_promise(tmp_path: Path) -> None:
    code = ATTENTION.replace("scores.softmax(-1) @ v", "F.dropout(scores.softmax(-1), 0.5) @ v")
    assert broken(report_of(tmp_path, code, "MultiHeadAttention")) == ["dropout-eval"]


def loop(times: int) -> None:
    for _ in range(times):
        try:
            sum(range(10_000))
        except Exception:
            continue


def test_a_time_limit_stops_a_loop_that_catches_exceptions() -> None:
    with pytest.raises(TooSlow), time_limit(0.05):
        loop(10**9)
    with time_limit(60.0):
        loop(10)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_time_limit_works_without_timers_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "setitimer")  # as on Windows
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(TooSlow), time_limit(0.05):
        loop(10**9)
    with time_limit(60.0):
        loop(10)
    assert signal.getsignal(signal.SIGINT) is before
