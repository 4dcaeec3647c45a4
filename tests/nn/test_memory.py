"""Unwatched, no T × S weights exist: measured by the memory of a separate process."""

import pytest
from command import python

LIMIT, WEIGHTS = 100, 256  # MB; 8,192 × 8,192 floats are 256 MB

PROGRAM = """
import resource, sys, torch
from contextlib import nullcontext
from limelight.nn import BlockConfig, Encoder, MultiHeadAttention, attend, padding_mask
from limelight.view import watch

def peak():
    # On Linux, ru_maxrss starts at the value of the parent process, which may be too large.
    if sys.platform == "linux":
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20

watched, masking = sys.argv[1:]
options = {}
if "causal" in masking:
    options["causal"] = True
if "padding" in masking:
    options["mask"] = padding_mask([5003], 8192)
# Only a stack uses the fact that causal attention already hides padding on the right.
attention = Encoder(1, BlockConfig(64, 1, 64)) if masking == "causal padding" else MultiHeadAttention(64, 1)
attention(torch.randn(1, 128, 64))
x = torch.randn(1, 8192, 64)
before = peak()
with watch(attention) if watched == "watched" else nullcontext() as seen:
    output = attend(x, x, x) if masking == "bare function" else attention(x, **options)
print(peak() - before)
if seen:
    assert seen["weights"][0].shape == (1, 1, 8192, 8192)
    assert abs(seen["weights"][0].sum() - 8192) < 1
"""


def megabytes(*arguments: str) -> float:
    done = python(PROGRAM, *arguments)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("masking", ["open", "causal", "padding", "causal padding", "bare function"])
def test_an_unwatched_forward_pass_stores_no_weights(masking: str) -> None:
    assert megabytes("unwatched", masking) < LIMIT


def test_a_watched_forward_pass_stores_its_weights() -> None:
    # If the system reclaims memory meanwhile, the measured peak is too low, but not every time.
    assert any(megabytes("watched", "open") > WEIGHTS / 2 > LIMIT for _ in range(5))
