"""Cross-entropy of an output layer: values and gradients equal torch's."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support import must_fail
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.nn import cross_entropy

N, D, V = 13, 7, 29
Loss = Callable[[Tensor, nn.Linear], Tensor]


def layer(scale: float = 1.0, bias: bool = True) -> nn.Linear:
    output = nn.Linear(D, V, bias=bias)
    with torch.no_grad():
        output.weight.mul_(scale)
    return output


def loss_and_gradients(loss_of: Loss, x: Tensor, output: nn.Linear) -> list[Tensor]:
    x = x.clone().requires_grad_()
    loss = loss_of(x, output)
    return [loss.detach(), *torch.autograd.grad(loss / 7, [x, *output.parameters()])]


def ours(targets: Tensor, smoothing: float) -> Loss:
    return lambda x, output: cross_entropy(x, output, targets, smoothing)[0]


def torchs(targets: Tensor, smoothing: float) -> Loss:
    return lambda x, output: F.cross_entropy(output(x), targets, reduction="sum", label_smoothing=smoothing)


def check_same(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["small", "huge"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_loss_and_gradients_equal_torchs(smoothing: float, scale: float, bias: bool) -> None:
    torch.manual_seed(1)
    x, output, targets = torch.randn(N, D), layer(scale, bias), torch.randint(V, (N,))
    found = loss_and_gradients(ours(targets, smoothing), x, output)
    check_same(found, loss_and_gradients(torchs(targets, smoothing), x, output))
    must_fail(check_same, found, loss_and_gradients(torchs(targets, smoothing + 0.05), x, output))


def test_a_large_vocabulary_gives_the_same_loss_and_gradients() -> None:
    torch.manual_seed(1)
    x, targets = torch.randn(257, D), torch.randint(8_001, (257,))
    output = nn.Linear(D, 8_001)
    found = loss_and_gradients(ours(targets, 0.1), x, output)
    check_same(found, loss_and_gradients(torchs(targets, 0.1), x, output))


def test_the_metric_counts_the_targets_that_are_the_most_likely_token() -> None:
    x, output = torch.randn(N, D), layer()
    targets = output(x).argmax(-1)
    targets[:5] = (targets[:5] + 1) % V
    assert int(cross_entropy(x, output, targets)[1]) == N - 5


def test_a_second_backward_gives_the_same_gradient() -> None:
    x = torch.randn(N, D, requires_grad=True)
    loss, _ = cross_entropy(x, layer(), torch.randint(V, (N,)), 0.1)
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert first.equal(second)


def test_half_precision_is_close() -> None:
    """As in training with precision = "bfloat16"."""
    torch.manual_seed(1)
    x, output, targets = torch.randn(N, D), layer(), torch.randint(V, (N,))
    expected = loss_and_gradients(torchs(targets, 0.1), x, output)
    with torch.autocast("cpu", torch.bfloat16):
        found = loss_and_gradients(ours(targets, 0.1), x, output)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)


def test_a_loss_that_is_not_finite_is_not_hidden() -> None:
    x = torch.randn(N, D)
    x[3, 5] = torch.nan
    assert cross_entropy(x, layer(), torch.randint(V, (N,)))[0].isnan()


def test_another_number_of_targets_is_rejected() -> None:
    with pytest.raises(WrongInput, match=r"targets is of shape \(12,\); allowed: one per row of \(13, 7\)"):
        cross_entropy(torch.randn(N, D), layer(), torch.zeros(N - 1, dtype=torch.long))
