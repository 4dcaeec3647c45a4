from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support import HIDDEN, B, D, T, gradients
from torch import Tensor

from limelight.nn import FeedForward, feedforward


@pytest.mark.parametrize(("name", "function"), [("relu", F.relu), ("gelu", F.gelu)])
def test_feed_forward_is_two_layers_with_an_activation_in_between(
    name: str, function: Callable[[Tensor], Tensor]
) -> None:
    network = FeedForward(D, HIDDEN, activation=name)
    x = torch.randn(B, T, D)
    hidden = function(x @ network.expand.weight.T + network.expand.bias)
    assert hidden.shape[-1] == HIDDEN
    torch.testing.assert_close(network(x), hidden @ network.contract.weight.T + network.contract.bias)


def test_each_position_is_computed_separately() -> None:
    x = torch.randn(B, T, D, requires_grad=True)
    output = FeedForward(D, HIDDEN)(x)
    for t in range(T):
        (gradient,) = gradients(output[:, t], x)
        others = torch.arange(T) != t
        assert gradient[:, others].eq(0).all()
        assert gradient[:, t].ne(0).any()


def test_dropout_acts_in_training_only() -> None:
    network = FeedForward(D, HIDDEN, dropout=0.5)
    x = torch.randn(B, T, D)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


def test_invalid_arguments_raise_an_error_that_names_them() -> None:
    with pytest.raises(ValueError, match="activation is 'swish'; allowed: 'relu' or 'gelu'"):
        FeedForward(D, HIDDEN, activation="swish")
    with pytest.raises(ValueError, match=r"x is of shape \(3, 5\); allowed: \(..., D\)"):
        FeedForward(D, HIDDEN)(torch.randn(B, T))
    with pytest.raises(ValueError, match="hidden is 0; allowed"):
        FeedForward(D, 0)


@torch.no_grad()
@pytest.mark.parametrize("rows", [11, 12, 23])
def test_many_positions_are_computed_in_chunks(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = FeedForward(D, HIDDEN), torch.randn(rows, 2, D)
    whole = network(x)
    sizes: list[int] = []
    network.expand.register_forward_hook(lambda _, __, hidden: sizes.append(len(hidden)))
    monkeypatch.setattr(feedforward, "CHUNK", 5)
    torch.testing.assert_close(network(x), whole)
    assert (sum(sizes), max(sizes)) == (2 * rows, 5)
