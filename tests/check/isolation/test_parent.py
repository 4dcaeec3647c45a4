"""Someone's file in a process of its own: whatever it does is a finding, and the rest is still checked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import goes_red

import limelight
from limelight.check import assert_kept, check
from limelight.check.isolation.parent import Limits, check_file
from limelight.check.report import FileReport

ORIGINALS = Path(__file__).parent.parent / "originals"
SOFTMAX = """
def masked_softmax(scores, mask=None):
    {body}
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    return scores.softmax(-1)
"""
MASK = """
import torch

def causal_mask(size):
    return torch.ones(size, size).tril().bool()
"""
QUICK = Limits(seconds=6)


def checked(tmp_path: Path, code: str, name: str | None = None, limits: Limits | None = None) -> FileReport:
    path = tmp_path / "their file.py"  # a name that no import statement could have
    path.write_text(code)
    return check_file(path, name, limits=limits)


def verdicts(found: FileReport) -> dict[str, list[str]]:
    return {report.name: [finding.promise for finding in report.broken] for report in found.reports}


def test_what_is_right_in_a_file_is_found_right(tmp_path: Path) -> None:
    code = SOFTMAX.format(body="pass") + MASK
    found = checked(tmp_path, code)
    assert verdicts(found) == {"masked_softmax": [], "causal_mask": []}
    assert found.exit_code() == 0
    lines = [number for number, line in enumerate(code.split("\n"), 1) if line.startswith("def ")]
    assert [report.line for report in found.reports] == lines


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "exit()",
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    ],
    ids=["endless", "exit", "os._exit", "crash"],
)
def test_what_does_not_come_back_is_a_finding_and_the_rest_is_checked(tmp_path: Path, body: str) -> None:
    found = checked(tmp_path, SOFTMAX.format(body=body) + MASK, limits=QUICK)
    assert verdicts(found) == {"masked_softmax": ["runs"], "causal_mask": []}
    assert found.exit_code() == 1


def test_memory_has_a_limit(tmp_path: Path) -> None:
    body = "import torch; big = torch.ones(1 << 30, dtype=torch.float64)"
    found = checked(tmp_path, SOFTMAX.format(body=body), limits=Limits(memory=3 << 30))
    assert found.exit_code() == 2
    (report,) = found.reports
    assert "could not be called" in report.trouble


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch\nraise ValueError('no data')", "ValueError: no data (line 2)"),
        ("x = (1,\n", "SyntaxError"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package' (line 1)"),
        ("quit()", "SystemExit"),
        ("input('name? ')", "EOFError"),
        ("x = 3", "nothing in it looks like a known part of a Transformer"),
        ("while True: pass", "importing it takes longer than 6 s"),
    ],
    ids=["raises", "syntax", "missing", "quit", "asks", "nothing", "endless"],
)
def test_a_file_that_cannot_be_imported_says_why(tmp_path: Path, code: str, said: str) -> None:
    found = checked(tmp_path, code, limits=QUICK)
    assert said in found.trouble
    assert found.exit_code() == 2


def test_what_is_printed_on_the_way_is_nobodys(tmp_path: Path) -> None:
    found = checked(tmp_path, "print('hello' * 100000)\n" + MASK)
    assert found.exit_code() == 0


def test_what_is_not_understood_gets_an_adapter_that_works_when_filled_in(tmp_path: Path) -> None:
    odd = "import torch\n\nclass MyAttention(torch.nn.Module):\n    def __init__(self, a, *, b):\n"
    odd += "        assert b == 'two'\n        super().__init__()\n    def forward(self, *tensors):\n"
    odd += "        q, k, v = tensors\n        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v\n"
    found = checked(tmp_path, odd, "MyAttention")
    (report,) = found.reports
    assert found.exit_code() == 2
    assert report.trouble
    (tmp_path / "mine.py").write_text(odd)
    lines = report.adapter.replace("their file", "mine")
    lines = lines.replace("super().__init__(...)", "super().__init__(1, b='two')")
    lines = lines.replace("super().forward(...)", "super().forward(queries, keys, values)")
    (tmp_path / "adapted.py").write_text(lines)
    again = check_file(tmp_path / "adapted.py", "Adapted", "dot-product-attention")
    assert again.reports[0].trouble == ""
    # What the adapter takes and does not hand on is found, too.
    assert verdicts(again)["Adapted"] == ["mask-has-effect", "dropout-train"]


PART = """
import torch
from torch import nn

class OddFeedForward(nn.Module):
    def __init__(self, secret):
        assert secret == "xyzzy"
        super().__init__()
        self.up, self.down = nn.Linear(12, 20), nn.Linear(20, 12)
    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
"""
WHOLE = """
class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.feed, self.one, self.two = OddFeedForward("xyzzy"), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
    def forward(self, x):
        x = self.one(x + self.attention(x, x, x, need_weights=False)[0])
        return self.two(x + self.feed(x))
"""


def test_a_part_that_is_not_understood_alone_counts_where_nothing_else_tries_it(tmp_path: Path) -> None:
    alone = checked(tmp_path, PART)
    assert alone.exit_code() == 2
    assert [report.name for report in alone.unchecked] == ["OddFeedForward"]
    both = checked(tmp_path, PART + WHOLE)
    assert both.exit_code() == 0
    assert both.unchecked == []
    assert {report.name: report.within for report in both.reports} == {
        "OddFeedForward": ("EncoderBlock",),
        "EncoderBlock": (),
    }
    (tmp_path / "both.py").write_text(PART + WHOLE)
    done = command(str(tmp_path / "both.py"))
    assert done.returncode == 0
    assert "only as a part of EncoderBlock; by itself" in done.stdout
    assert done.stdout.strip().endswith("1 checked, 0 broken")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "limelight", "check", *arguments]
    return subprocess.run(program, capture_output=True, text=True)


def test_the_command_shows_a_counter_example_and_exits_with_one(tmp_path: Path) -> None:
    path = tmp_path / "soft.py"
    path.write_text(SOFTMAX.format(body="pass").replace("softmax(-1)", "softmax(1)"))
    done = command(str(path))
    assert done.returncode == 1
    assert "FAIL  softmax-axis" in done.stdout
    assert "expected  each row adds up to 1" in done.stdout
    assert "usually" in done.stdout
    assert done.stdout.strip().endswith("1 checked, 1 broken")


def test_the_command_marks_a_folder_as_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOFTMAX.format(body="pass"))
    (tmp_path / "b.py").write_text(SOFTMAX.format(body="mask = None"))
    (tmp_path / ".hidden.py").write_text("raise SystemExit")
    done = command(str(tmp_path), "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [Path(line["file"]).name for line in lines] == ["a.py", "b.py"]
    broken = [
        [f["promise"] for f in line["reports"][0]["findings"] if f["verdict"] == "FAIL"] for line in lines
    ]
    assert broken == [[], ["mask-has-effect"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py"], "nowhere.py: there is no such file"),
        ([str(ORIGINALS / "uva_way.py"), "--as", "masked-softmx"], "did you mean 'masked-softmax'?"),
        ([str(ORIGINALS) + "::attention"], "is a folder"),
    ],
)
def test_wrong_input_is_refused_in_one_line(arguments: list[str], said: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_name_that_is_not_there_is_said_with_those_that_are() -> None:
    done = command(f"{ORIGINALS / 'uva_way.py'}::Multihead")
    assert done.returncode == 2
    assert "there is no 'Multihead' in it; there are: scaled_dot_product" in done.stdout


def test_strict_counts_warnings(tmp_path: Path) -> None:
    path = f"{ORIGINALS / 'uva_way.py'}::scaled_dot_product"
    assert command(path).returncode == 0
    assert command(path, "--strict").returncode == 1


def test_a_test_of_ones_own_can_ask() -> None:
    def broken_masked_softmax(scores, mask=None):  # type: ignore[no-untyped-def]
        return scores.softmax(-1)

    assert_kept(limelight.nn.MultiHeadAttention)
    goes_red(assert_kept, broken_masked_softmax)
    assert [f.promise for f in check(broken_masked_softmax).broken] == ["mask-has-effect"]


OURS = {
    "masked-softmax": limelight.nn.masked_softmax,
    "scaled-dot-product": limelight.nn.attend,
    "additive-attention": limelight.nn.AdditiveAttention,
    "multi-head-attention": limelight.nn.MultiHeadAttention,
    "causal-mask": limelight.nn.causal_mask,
    "positional-encoding": limelight.nn.SinusoidalPositions,
    "feed-forward": limelight.nn.FeedForward,
    "encoder-block": limelight.nn.EncoderBlock,
    "decoder-block": limelight.nn.DecoderBlock,
    "encoder": limelight.nn.Encoder,
    "decoder": limelight.nn.Decoder,
    "patch-embedding": limelight.nn.PatchEmbedding,
}


@pytest.mark.parametrize("kind", OURS)
def test_our_own_parts_keep_every_promise(kind: str) -> None:
    report = check(OURS[kind], kind)
    assert report.trouble == ""
    assert [*report.broken, *report.warned] == []


TORCH = {
    "multi-head-attention": "MultiheadAttention",
    "encoder-block": "TransformerEncoderLayer",
    "decoder-block": "TransformerDecoderLayer",
}


@pytest.mark.parametrize("kind", TORCH)
def test_torchs_own_layers_raise_no_alarm(kind: str) -> None:
    report = check(getattr(__import__("torch").nn, TORCH[kind]), kind)
    assert report.trouble == ""
    assert [finding.promise for finding in report.broken] == []
