"""Files are checked in a separate process: crashes and endless loops are findings."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command import command as run

from limelight.check.isolation.parent import Limits, check_file
from limelight.check.report import UNTRUSTED, FileReport

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
QUICK = Limits(seconds=1)


def checked(tmp_path: Path, code: str, name: str | None = None, limits: Limits | None = None) -> FileReport:
    path = tmp_path / "their file.py"  # a name that no import statement could have
    path.write_text(code)
    return check_file(path, name, limits=limits)


def verdicts(found: FileReport) -> dict[str, list[str]]:
    return {report.name: [finding.promise for finding in report.broken] for report in found.reports}


def test_correct_code_passes(tmp_path: Path) -> None:
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
def test_an_object_that_does_not_return_is_a_finding_and_the_rest_is_checked(
    tmp_path: Path, body: str
) -> None:
    found = checked(tmp_path, SOFTMAX.format(body=body) + MASK, limits=QUICK)
    assert verdicts(found) == {"masked_softmax": ["runs"], "causal_mask": []}
    assert found.exit_code() == 1


def test_memory_is_limited(tmp_path: Path) -> None:
    body = "import torch; big = torch.ones(1 << 30, dtype=torch.float64)"
    found = checked(tmp_path, SOFTMAX.format(body=body), limits=Limits(memory=3 << 30))
    assert found.exit_code() == 2
    (report,) = found.reports
    assert "can't allocate memory" in report.trouble


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = (1,\n", "line 1: SyntaxError: '(' was never closed"),
        ("x = 3", "it has no function or nn.Module whose name looks like a part of a Transformer"),
        ("def f(x=quit()): pass", "line 1: f cannot be defined: SystemExit"),
        ("class A:\n    while True: pass", "loading it takes longer than 1 s"),
        (
            "class A:\n    import os; os._exit(0)",
            "the process ended before the check was finished (exit code 0)",
        ),
    ],
    ids=["syntax", "nothing", "quit", "endless", "exit"],
)
def test_the_reason_is_given_if_a_file_cannot_be_loaded(tmp_path: Path, code: str, message: str) -> None:
    found = checked(tmp_path, code, limits=QUICK)
    assert message in found.trouble
    assert found.exit_code() == 2


def test_the_time_limit_counts_cpu_time(tmp_path: Path) -> None:
    waiting = "class A:\n    import time; time.sleep({})\n" + MASK
    limits = Limits(seconds=0.5)
    assert checked(tmp_path, waiting.format(1), limits=limits).trouble == ""
    assert "longer than 0.5 s" in checked(tmp_path, waiting.format(60), limits=limits).trouble


FORGED = """
import os
import sys

class Forged:
    frame = sys._getframe()
    while "send" not in frame.f_locals:
        frame = frame.f_back
    report = '{"name": "causal_mask", "kind": "causal-mask", "findings": [{"verdict": "pass"}]}'
    frame.f_locals["send"](report=report)
    os._exit(0)
"""


def test_a_report_followed_by_an_exit_is_not_trusted(tmp_path: Path) -> None:
    found = checked(tmp_path, FORGED)
    assert [report.name for report in found.reports] == ["causal_mask"]
    assert "the process ended before the check was finished (exit code 0)" in found.trouble
    assert UNTRUSTED in found.trouble
    assert found.exit_code() == 2
    assert UNTRUSTED not in checked(tmp_path, "class A:\n    import os; os._exit(0)").trouble


def test_two_reports_about_one_object_are_not_trusted(tmp_path: Path) -> None:
    found = checked(tmp_path, FORGED.replace("os._exit(0)", "pass") + MASK)
    assert UNTRUSTED in found.trouble
    assert UNTRUSTED not in checked(tmp_path, MASK).trouble


def test_the_output_of_a_file_is_ignored(tmp_path: Path) -> None:
    found = checked(tmp_path, "print('hello' * 100000)\n" + MASK)
    assert found.exit_code() == 0


def test_an_object_that_cannot_be_called_gets_an_adapter_that_works_when_filled_in(tmp_path: Path) -> None:
    odd = "import torch\n\nclass MyAttention(torch.nn.Module):\n    def __init__(self, a, *, b):\n"
    odd += "        assert b == 'two'\n        super().__init__()\n    def forward(self, *tensors):\n"
    odd += "        q, k, v = tensors\n        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v\n"
    found = checked(tmp_path, odd, "MyAttention")
    (report,) = found.reports
    assert found.exit_code() == 2
    assert report.trouble.endswith("the first attempt ends in line 5 with AssertionError")
    (tmp_path / "mine.py").write_text(odd)
    lines = report.adapter.replace("their file", "mine")
    lines = lines.replace("super().__init__(...)", "super().__init__(1, b='two')")
    lines = lines.replace("super().forward(...)", "super().forward(queries, keys, values)")
    (tmp_path / "adapted.py").write_text(lines)
    again = check_file(tmp_path / "adapted.py", "Adapted", "dot-product-attention")
    assert again.reports[0].trouble == ""
    # Arguments that the adapter takes and does not pass on are found, too.
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


def test_a_part_that_cannot_be_called_counts_only_if_no_other_object_uses_it(tmp_path: Path) -> None:
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
    assert "checked only as a part of EncoderBlock; on its own:" in done.stdout
    assert done.stdout.strip().endswith("1 object checked, 0 with broken promises")


def command(*arguments: str) -> CompletedProcess[str]:
    return run("check", *arguments)


def test_the_command_shows_a_counter_example_and_exits_with_one(tmp_path: Path) -> None:
    path = tmp_path / "soft.py"
    path.write_text(SOFTMAX.format(body="pass").replace("softmax(-1)", "softmax(1)"))
    done = command(str(path))
    assert done.returncode == 1
    assert "FAIL  softmax-axis" in done.stdout
    assert "expected  each row sums to 1" in done.stdout
    assert "hint" in done.stdout
    assert "pass  in-place" not in done.stdout
    assert "pass  in-place" in command(str(path), "--verbose").stdout
    assert done.stdout.strip().endswith("1 object checked, 1 with broken promises")


def test_the_command_prints_one_json_line_per_file_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOFTMAX.format(body="pass"))
    (tmp_path / "b.py").write_text(SOFTMAX.format(body="mask = None"))
    (tmp_path / ".hidden.py").write_text("raise SystemExit")
    done = command(str(tmp_path), "--jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    several = command(str(tmp_path / "a.py"), str(tmp_path / "b.py"), "--json")
    assert json.loads(several.stdout) == lines
    assert [Path(line["file"]).name for line in lines] == ["a.py", "b.py"]
    broken = [
        [f["promise"] for f in line["reports"][0]["findings"] if f["verdict"] == "FAIL"] for line in lines
    ]
    assert broken == [[], ["mask-has-effect"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "nowhere.py: there is no such file"),
        ([str(ORIGINALS / "uva_style.py"), "--as", "masked-softmx"], "did you mean 'masked-softmax'?"),
        ([str(ORIGINALS) + "::attention"], "is a folder"),
        ([str(Path(__file__).parents[3] / "LICENSE")], "LICENSE is not a Python file (.py), a notebook"),
    ],
)
def test_invalid_input_is_reported_in_one_line(arguments: list[str], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_name_is_reported_with_the_known_ones() -> None:
    done = command(f"{ORIGINALS / 'uva_style.py'}::Multihead")
    assert done.returncode == 2
    assert "it defines no 'Multihead'; it defines: scaled_dot_product" in " ".join(done.stdout.split())


def test_strict_counts_warnings() -> None:
    path = f"{ORIGINALS / 'uva_style.py'}::scaled_dot_product"
    assert command(path).returncode == 0
    assert command(path, "--strict").returncode == 1
