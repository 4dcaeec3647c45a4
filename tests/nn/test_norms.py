"""RMS norm, compared with torch's."""

import pytest
import torch
from support import B, D, T, assert_same, gradients, must_fail
from torch import nn

from limelight.errors import WrongInput
from limelight.nn import RMSNorm
from limelight.nn.norms import split_norm


def test_values_and_gradients_are_those_of_torch() -> None:
    ours, theirs = RMSNorm(D), nn.RMSNorm(D, eps=1e-6)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.uniform_(0.5, 1.5))
    x = (3 + torch.randn(B, T, D)).requires_grad_()
    got, expected = ours(x), theirs(x)
    assert_same(got, expected)
    for one, other in zip(gradients(got, x, ours.weight), gradients(expected, x, theirs.weight), strict=True):
        assert_same(one, other)
    must_fail(assert_same, nn.LayerNorm(D)(x), expected)


@pytest.mark.parametrize("norm", ["pre-layer", "rms", "pre-", "middle-rms"])
def test_an_unknown_norm_is_refused(norm: str) -> None:
    with pytest.raises(WrongInput, match="norm is"):
        split_norm(norm)
    assert split_norm("pre-rms") == ("pre", RMSNorm)
    assert split_norm("post") == ("post", nn.LayerNorm)
