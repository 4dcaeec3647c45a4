"""Linear layers by another library: values and gradients are those of torch.nn.Linear."""

import pytest
import torch
from support import must_fail, not_none
from torch import Tensor, nn
from torch.autograd import gradgradcheck

from limelight.nn.kernels.linear import (
    LARGE,
    LARGE_MATRIX,
    SUMS_ROWS,
    Linear,
    pack,
    product,
    times,
    times_packed,
)

N, D, E = 131, 127, 137  # at least as many multiplications as the faster library needs


def assert_near(found: object, expected: object) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def results(layer: nn.Linear, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    layer.zero_grad()
    output = layer(x)
    (output * output.detach().cos()).sum().backward()
    return [output, not_none(x.grad), *(not_none(parameter.grad) for parameter in layer.parameters())]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(D, E), (E, D)])
@pytest.mark.parametrize("shape", [(N,), (1, N), (1, 1, N)])
def test_values_and_gradients_are_those_of_torch(
    shape: tuple[int, ...], inputs: int, outputs: int, bias: bool
) -> None:
    torch.manual_seed(1)
    assert N * D * E >= LARGE
    theirs = nn.Linear(inputs, outputs, bias=bias)
    ours = Linear(inputs, outputs, bias=bias)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(*shape, inputs)
    assert_near(results(ours, x), results(theirs, x))
    must_fail(assert_near, results(ours, 1.01 * x), results(theirs, x))


def test_a_frozen_weight_gets_no_gradient() -> None:
    layer = Linear(D, E).requires_grad_(False)
    x = torch.randn(N, D, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert_near(not_none(x.grad), layer.weight.sum(0).expand(N, -1))


def test_gradients_have_derivatives() -> None:
    torch.manual_seed(1)
    layer = Linear(3, 5).double()
    assert gradgradcheck(layer, torch.randn(2, 3, dtype=torch.double, requires_grad=True))
    large, x = Linear(D, E), torch.randn(N, D, requires_grad=True)
    for one in (large, nn.Linear(D, E)):
        one.load_state_dict(large.state_dict())
        (gradient,) = torch.autograd.grad(one(x).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), x)
        w = large.weight.detach()
        torch.testing.assert_close(second, 8 * (gradient.detach() / 2) @ w.T @ w, rtol=1e-3, atol=1e-3)


def test_a_layer_refuses_another_width() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        Linear(D, E)(torch.randn(N, D + 1))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_product_with_few_rows_is_a_matrix_product(rows: int) -> None:
    torch.manual_seed(1)
    matrix, bias, x = torch.randn(367, 359), torch.randn(359), torch.randn(rows, 367)
    assert matrix.numel() >= LARGE_MATRIX
    expected = (x.double() @ matrix.double()).float()
    assert_near(times(x, matrix), expected)
    assert_near(times(x, matrix, bias), expected + bias)
    must_fail(assert_near, times(x, matrix), expected + bias)
    assert_near(product(x, matrix.T, bias), expected + bias)


@pytest.mark.skipif(not SUMS_ROWS, reason="torch without FBGEMM")
def test_a_packed_matrix_multiplies_a_row_with_a_small_error() -> None:
    torch.manual_seed(1)
    x, matrix, bias = torch.randn(1, D), torch.randn(D, E), torch.randn(E)
    packed = pack(matrix)
    assert packed.numel() * packed.element_size() < 0.4 * matrix.numel() * matrix.element_size()
    found = times_packed(x, packed, bias)

    def check(expected: Tensor) -> None:
        assert float((found - expected).norm() / expected.norm()) < 0.02

    check(x @ matrix + bias)
    must_fail(check, x @ matrix)
    must_fail(check, 1.03 * (x @ matrix) + bias)
