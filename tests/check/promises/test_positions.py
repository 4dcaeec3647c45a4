"""Positional encodings are judged by what they are: sinusoids, learned tables, fractions or rotations."""

import pytest
import torch
from torch import Tensor, nn

from limelight.check import check


class Fractions(nn.Module):
    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.register_buffer("table", (torch.arange(max_len) / max_len).unsqueeze(1).expand(max_len, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]  # type: ignore[index]


class Sinusoids(nn.Module):
    base = 10000.0

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        angles = torch.arange(max_len).unsqueeze(1) * self.base ** (-torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]  # type: ignore[index]


class WrongSinusoids(Sinusoids):
    base = 100.0


class RotaryNeighbours(nn.Module):
    sign = -1

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        angles = torch.arange(max_len).unsqueeze(1) * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def angles(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.cos[: x.shape[1]], self.sin[: x.shape[1]]  # type: ignore[index]

    def forward(self, x: Tensor) -> Tensor:
        (cos, sin), a, b = self.angles(x), x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos + self.sign * b * sin, b * cos + a * sin], -1).flatten(-2)


class RotaryHalves(RotaryNeighbours):
    def forward(self, x: Tensor) -> Tensor:
        (cos, sin), (a, b) = self.angles(x), x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class RotaryWithoutSign(RotaryNeighbours):
    sign = 1


class RotaryWithOneAngle(RotaryNeighbours):
    def angles(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.cos[1], self.sin[1]  # type: ignore[index]


class RotaryInBothDirections(RotaryNeighbours):
    """The queries of odd positions are rotated backwards: norms are kept, distances are not."""

    def angles(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = super().angles(x)
        return cos, sin * (1 - 2 * (torch.arange(len(sin), device=x.device) % 2)).unsqueeze(1)


@pytest.mark.parametrize(
    ("cls", "broken"),
    [
        (Fractions, []),
        (Sinusoids, []),
        (WrongSinusoids, ["positions-formula"]),
        (RotaryNeighbours, []),
        (RotaryHalves, []),
        (RotaryWithoutSign, ["rotation"]),
        (RotaryWithOneAngle, ["positions-differ"]),
        (RotaryInBothDirections, ["rotation"]),
    ],
)
def test_an_encoding_is_judged_by_its_own_formula(cls: type[nn.Module], broken: list[str]) -> None:
    report = check(cls, "positional-encoding")
    assert not report.trouble
    assert [finding.promise for finding in report.broken] == broken


def test_only_rotary_encodings_must_rotate() -> None:
    for cls, verdict in ((Sinusoids, "n/a"), (RotaryHalves, "pass")):
        findings = {
            finding.promise: finding.verdict for finding in check(cls, "positional-encoding").findings
        }
        assert findings["rotation"] == verdict


class CosinesFirst(Sinusoids):
    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__(d_model, max_len)
        pairs = self.get_buffer("table").unflatten(-1, (-1, 2))
        self.register_buffer("table", pairs.flip(-1).flatten(-2))


def test_sines_and_cosines_in_each_others_places_are_a_warning() -> None:
    for cls, warned in ((Sinusoids, []), (CosinesFirst, ["positions-formula"])):
        assert [finding.promise for finding in check(cls, "positional-encoding").warned] == warned
