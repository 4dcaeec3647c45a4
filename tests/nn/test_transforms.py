"""Transformations of a module by torch: compile, export, second derivatives, vmap."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import HIDDEN, B, D, H, T, must_fail, not_none
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

from limelight.nn import BlockConfig, Encoder, padding_mask
from limelight.view import watch

# Warnings of torch about itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
]
LENGTHS = [5, 2, 3]
MASKS = {
    "no mask": None,
    "padding": padding_mask(LENGTHS, T),
    "a mask of T rows": padding_mask(LENGTHS, T).expand(-1, T, -1),
}
ALL_MASKS = pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))


def encoder(**options: Any) -> Encoder:
    torch.manual_seed(2)
    return Encoder(1, BlockConfig(D, H, HIDDEN, activation="gelu", **options))


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@ALL_MASKS
def test_a_compiled_encoder_has_the_same_values_and_gradients(mask: Tensor | None, dropout: float) -> None:
    """Without the C++ compiler of torch.compile, which is tested on the command line."""
    torch.compiler.reset()
    model = encoder(dropout=dropout).train(dropout > 0)
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.randn(B, T, D)

    def results(function: Callable[..., Tensor]) -> list[Tensor]:
        model.zero_grad()
        output = function(x, mask)
        output.square().sum().backward()
        return [output.detach(), *(not_none(parameter.grad).clone() for parameter in model.parameters())]

    ours, expected = results(compiled), results(model)
    for one, other in zip(ours, expected, strict=True):
        assert one.isfinite().all()
        if not dropout:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@ALL_MASKS
def test_an_exported_encoder_has_the_same_values(mask: Tensor | None) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder().eval()

        def forward(self, x: Tensor) -> Tensor:
            return self.encoder(x, mask)

    x, model = torch.randn(B, T, D), Masked()
    exported = torch.export.export(model, (torch.randn(B, T, D),)).module()
    torch.testing.assert_close(exported(x), model(x), rtol=1e-5, atol=1e-5)


@ALL_MASKS
def test_a_watched_encoder_has_second_and_forward_mode_derivatives(mask: Tensor | None) -> None:
    small = Encoder(1, BlockConfig(4, 2, 3, activation="gelu")).double()
    x = torch.randn(B, T, 4, dtype=torch.float64, requires_grad=True)
    with watch(small):
        assert gradcheck(lambda x: small(x, mask), x, check_forward_ad=True)
        assert gradgradcheck(lambda x: small(x, mask), x)


@ALL_MASKS
def test_a_watched_encoder_supports_vmap(mask: Tensor | None) -> None:
    model, several = encoder().eval(), torch.randn(2, B, T, D)
    with watch(model):
        mapped = torch.func.vmap(lambda x: model(x, mask))(several)
    for one, x in zip(mapped, several, strict=True):
        torch.testing.assert_close(one, model(x, mask), rtol=1e-5, atol=1e-5)


def test_the_check_catches_a_missing_second_derivative() -> None:
    def check() -> None:
        x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
        assert gradgradcheck(lambda x: x.detach() * x, x, raise_exception=False)

    must_fail(check)
