"""Tensors on the wrong device: a mistake in the code fails, a device that the caller sets is a warning."""

import pytest
import torch
from torch import Tensor, nn

from limelight.check import check

device = torch.device("cpu")


class PositionalEmbedding(nn.Module):
    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table(self.steps(x))

    def steps(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1], device=x.device)


class OnCPU(PositionalEmbedding):
    def steps(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1])


class OnGlobalDevice(PositionalEmbedding):
    def steps(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1]).to(device)


class OnAvailableDevice(PositionalEmbedding):
    def steps(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1], device="cuda" if torch.cuda.is_available() else "cpu")


class OnGivenDevice(PositionalEmbedding):
    def __init__(self, d_model: int, max_len: int, device: str = "cpu") -> None:
        super().__init__(d_model, max_len)
        self.factor = torch.ones(1).to(device)
        self.device = device

    def steps(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1], device=self.device)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.factor * self.table(self.steps(x))


class PlainAttribute(PositionalEmbedding):
    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__(d_model, max_len)
        self.factor = torch.ones(1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.factor * self.table(self.steps(x))


@pytest.mark.parametrize(
    ("cls", "verdict", "code"),
    [
        (PositionalEmbedding, "pass", ""),
        (OnCPU, "FAIL", "return torch.arange(x.shape[1])"),
        (OnGlobalDevice, "warn", "return torch.arange(x.shape[1]).to(device)"),
        (OnAvailableDevice, "warn", "return torch.arange(x.shape[1], device="),
        (OnGivenDevice, "warn", "return torch.arange(x.shape[1], device=self.device)"),
        (PlainAttribute, "FAIL", "self.factor = torch.ones(1)"),
    ],
)
def test_only_a_tensor_that_would_stay_on_the_cpu_fails(
    cls: type[nn.Module], verdict: str, code: str
) -> None:
    report = check(cls, "positional-encoding")
    name = "positions-buffer" if cls is PlainAttribute else "dtype-device"
    assert {finding.promise for finding in report.broken} <= {name}
    (finding,) = (one for one in report.findings if one.promise == name)
    assert finding.verdict == verdict
    assert finding.code.startswith(code)
    assert finding.got.startswith("on a GPU: ") or verdict == "pass"
    assert "meta" not in finding.got
    assert device.type == "cpu"
