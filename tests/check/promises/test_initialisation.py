"""Parameters without values: a finding, unless another function of the file fills them."""

from pathlib import Path

from limelight.check.isolation.parent import check_file


def test_parameters_may_be_initialised_by_another_function(tmp_path: Path) -> None:
    code = """import torch
from torch import nn

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_1 = nn.Parameter(torch.empty(d_model, d_ff))
        self.W_2 = nn.Parameter(torch.empty(d_ff, d_model))

    def forward(self, x):
        return torch.relu(x @ self.W_1) @ self.W_2
"""
    later = "\n\ndef init_weights(part):\n    for p in part.parameters():\n        nn.init.normal_(p)\n"
    path = tmp_path / "parts.py"
    for text, broken in ((code, ["initialised"]), (code + later, [])):
        path.write_text(text)
        assert [finding.promise for finding in check_file(path).reports[0].broken] == broken


def test_memory_that_is_not_initialised_gives_the_same_report_every_time(tmp_path: Path) -> None:
    path = tmp_path / "parts.py"
    path.write_text(
        """import torch
from torch import nn

class Norm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model))

    def forward(self, x):
        return self.weight * x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.norm = Norm(d_model)
        self.one, self.two = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return x + self.two(torch.relu(self.one(self.norm(x))))
"""
    )
    reports = [check_file(path).reports[0] for _ in range(3)]
    assert {report.model_dump_json() for report in reports} == {reports[0].model_dump_json()}
    assert [finding.promise for finding in reports[0].broken] == ["initialised"]
