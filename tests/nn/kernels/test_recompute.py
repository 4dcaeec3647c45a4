"""Tensors that are computed again for the backward pass: the same gradients, less memory."""

from contextlib import nullcontext

import pytest
import torch
from support import not_none
from torch import Tensor

from limelight.nn import BlockConfig, DecoderOnly
from limelight.nn.kernels import recompute
from limelight.nn.kernels.recompute import LARGE, all_kept, recomputed

N, D = 521, 509


def gradients(*, again: bool, overwrite: bool = False) -> list[Tensor]:
    """Of the weights of a product, whose other factor is `sines`."""
    torch.manual_seed(1)
    x, w = torch.randn(N, D), torch.randn(D, 3, requires_grad=True)
    sines = x.sin()
    with recomputed(sines, x.sin) if again else nullcontext():
        out = sines @ w
    if overwrite:
        sines.zero_()
    out.square().sum().backward()
    return [not_none(w.grad)]


def test_a_tensor_that_is_computed_again_is_not_kept() -> None:
    assert N * D >= LARGE
    expected = gradients(again=False)
    assert all(map(torch.equal, gradients(again=True), expected))
    # The memory of the tensor may be used for something else.
    assert all(map(torch.equal, gradients(again=True, overwrite=True), expected))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients(again=False, overwrite=True)


def test_a_measurement_of_memory_sees_all_tensors() -> None:
    with all_kept(), pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients(again=True, overwrite=True)


@pytest.mark.parametrize("norm", ["pre", "pre-rms"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_stack_has_the_same_gradients_to_the_bit(
    norm: str, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    model = DecoderOnly(2, BlockConfig(22, 2, 34, norm=norm, dropout=dropout))
    x = torch.randn(3, 7, 22)

    def run() -> list[Tensor]:
        torch.manual_seed(2)
        model.zero_grad()
        model(x).square().sum().backward()
        return [not_none(parameter.grad).clone() for parameter in model.parameters()]

    expected = run()
    monkeypatch.setattr(recompute, "LARGE", 1)
    found = run()
    assert all(map(torch.equal, found, expected))
