"""Cross-entropy: torch's values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from support import goes_red
from torch import Tensor

from limelight.errors import WrongInput
from limelight.nn import cross_entropy

N, V = 13, 29


def both(logits: Tensor, targets: Tensor, smoothing: float, wanted: float) -> list[tuple[Tensor, Tensor]]:
    """Loss and gradient: ours, and torch's with the smoothing that is wanted."""
    found = []
    for loss_of in (
        lambda x: cross_entropy(x, targets, smoothing)[0],
        lambda x: F.cross_entropy(x, targets, reduction="sum", label_smoothing=wanted),
    ):
        x = logits.clone().requires_grad_()
        loss = loss_of(x)
        (loss / 7).backward()
        found.append((loss.detach(), x.grad))
    return found


def check_same(found: list[tuple[Tensor, Tensor]]) -> None:
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["small", "huge"])
def test_loss_and_gradient_are_torchs(smoothing: float, scale: float) -> None:
    torch.manual_seed(1)
    logits, targets = torch.randn(N, V) * scale, torch.randint(V, (N,))
    check_same(both(logits, targets, smoothing, smoothing))
    goes_red(check_same, both(logits, targets, smoothing, smoothing + 0.05))


def test_it_counts_the_targets_that_are_the_most_likely_token() -> None:
    logits = torch.randn(N, V)
    targets = logits.argmax(-1)
    targets[:5] = (targets[:5] + 1) % V
    assert int(cross_entropy(logits, targets)[1]) == N - 5


def test_a_second_backward_gives_the_same_gradient() -> None:
    x = torch.randn(N, V, requires_grad=True)
    loss, _ = cross_entropy(x, torch.randint(V, (N,)), 0.1)
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert first.equal(second)


def test_a_loss_that_is_not_finite_is_not_hidden() -> None:
    logits = torch.randn(N, V)
    logits[3, 5] = torch.nan
    assert cross_entropy(logits, torch.randint(V, (N,)))[0].isnan()


def test_targets_of_another_number_are_refused() -> None:
    with pytest.raises(WrongInput, match=r"targets is of shape \(12,\); allowed: one a row of \(13, 29\)"):
        cross_entropy(torch.randn(N, V), torch.zeros(N - 1, dtype=torch.long))
