"""The lean decoder: the steps of the decoder it was made of."""

import pytest
import torch
from support import HIDDEN, NORMS, B, D, H, S, T, goes_red
from torch import Tensor

from limelight.errors import WrongInput
from limelight.nn import Decoder, LeanCache, LeanDecoder, padding_mask


def steps(decoder: Decoder | LeanDecoder, memory: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
    """Three steps, a new order of the rows, and the rest."""
    cache = decoder.start(memory, mask, capacity=T)
    found = []
    for place, x_BD in enumerate(target.unbind(1)):
        if place == 3:
            cache.reorder(torch.tensor([2, 0, 2, 1, 1]))
        if place >= 3:
            x_BD = x_BD[[2, 0, 2, 1, 1]]
        lean = isinstance(cache, LeanCache)
        found.append(decoder.step(x_BD, cache) if lean else decoder.step(x_BD.unsqueeze(1), cache).squeeze(1))
    return torch.cat(found)


@NORMS
@pytest.mark.parametrize("padded", [True, False], ids=["padded", "whole"])
@torch.no_grad()
def test_its_steps_are_those_of_the_decoder(norm: str, padded: bool) -> None:
    torch.manual_seed(1)
    decoder = Decoder(3, D, H, HIDDEN, norm=norm, activation="gelu").eval()
    for parameter in decoder.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)  # norms and biases that are not as they are born
    memory, target = torch.randn(B, S, D), torch.randn(B, T, D)
    mask = padding_mask([S, 2, 5]) if padded else None
    expected = steps(decoder, memory, mask, target)
    torch.testing.assert_close(steps(LeanDecoder(decoder), memory, mask, target), expected)
    other = padding_mask([S, 3, 5])
    goes_red(torch.testing.assert_close, steps(LeanDecoder(decoder), memory, other, target), expected)


@torch.no_grad()
def test_without_sources_a_row_keeps_the_source_that_it_had() -> None:
    lean = LeanDecoder(Decoder(2, D, H, HIDDEN).eval())
    memory, x = torch.randn(B, S, D), torch.randn(B, D)
    cache = lean.start(memory, capacity=2)
    lean.step(x, cache)
    before = [memory.keys.clone() for memory in cache.memories]
    cache.reorder(torch.tensor([1, 0, 2]), sources=False)
    assert all(memory.keys.equal(old) for memory, old in zip(cache.memories, before, strict=True))
    cache.reorder(torch.tensor([1, 0, 2]))
    assert not any(memory.keys.equal(old) for memory, old in zip(cache.memories, before, strict=True))


def test_a_full_cache_is_refused() -> None:
    lean = LeanDecoder(Decoder(1, D, H, HIDDEN))
    cache = lean.start(torch.randn(B, S, D), capacity=1)
    lean.step(torch.randn(B, D), cache)
    with pytest.raises(WrongInput, match="cache is of 1 positions; allowed: at least 2"):
        lean.step(torch.randn(B, D), cache)
