"""The fast decoder: its steps equal those of the decoder that it copies."""

import pytest
import torch
from support import HIDDEN, MANY, NORMS, B, D, H, S, T, must_fail
from torch import Tensor

from limelight.errors import WrongInput
from limelight.nn import BlockConfig, Decoder, DecoderCache, FastCache, FastDecoder, padding_mask
from limelight.nn.kernels.fast_decoder import OneSource, SeveralSources


def steps(decoder: Decoder | FastDecoder, memory: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
    """One step, then twice as many rows, and other rows at each step."""
    cache = decoder.start(memory, mask, capacity=T)
    orders = {
        1: torch.arange(len(memory)).repeat_interleave(2),
        2: torch.arange(2 * len(memory) - 1),  # one source has one row less
        3: torch.tensor([4, 0, 4, 1, 1]) % (2 * len(memory) - 1),
    }
    rows, found = torch.arange(len(memory)), list[Tensor]()
    for position, x_BD in enumerate(target.unbind(1)):
        if position in orders:
            cache.reorder(orders[position])
            rows = rows[orders[position]]
        x_BD = x_BD[rows]
        if isinstance(decoder, FastDecoder):
            assert isinstance(cache, FastCache)
            found.append(decoder.step(x_BD, cache))
        else:
            assert isinstance(cache, DecoderCache)
            found.append(decoder.step(x_BD.unsqueeze(1), cache).squeeze(1))
    return torch.cat(found)


@NORMS
@pytest.mark.parametrize("padded", [True, False], ids=["padded", "whole"])
@torch.no_grad()
def test_the_steps_of_the_fast_decoder_equal_those_of_the_decoder(norm: str, padded: bool) -> None:
    torch.manual_seed(1)
    decoder = Decoder(3, BlockConfig(D, H, HIDDEN, norm=norm, activation="gelu")).eval()
    for parameter in decoder.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)  # norms and biases differ from their initial values
    memory, target = torch.randn(B, S, D), torch.randn(B, T, D)
    mask = padding_mask([S, 2, 5]) if padded else None
    expected = steps(decoder, memory, mask, target)
    torch.testing.assert_close(steps(FastDecoder(decoder), memory, mask, target), expected)
    other = padding_mask([S, 3, 5])
    must_fail(torch.testing.assert_close, steps(FastDecoder(decoder), memory, other, target), expected)


@NORMS
@pytest.mark.parametrize("length", [S, MANY], ids=["short", "long"])
@torch.no_grad()
def test_beams_of_one_source_continue_like_those_of_the_decoder(norm: str, length: int) -> None:
    torch.manual_seed(1)
    decoder = Decoder(2, BlockConfig(D, H, HIDDEN, norm=norm)).eval()
    for parameter in decoder.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    memory, target = torch.randn(1, length, D), torch.randn(1, T, D)
    fast = FastDecoder(decoder)
    assert isinstance(fast.start(memory, capacity=T).memories[0], OneSource) is (length == S)
    torch.testing.assert_close(steps(fast, memory, None, target), steps(decoder, memory, None, target))
    must_fail(
        torch.testing.assert_close,
        steps(fast, memory.flip(2), None, target),
        steps(decoder, memory, None, target),
    )


@torch.no_grad()
def test_without_sources_a_row_keeps_its_source() -> None:
    fast = FastDecoder(Decoder(2, BlockConfig(D, H, HIDDEN)).eval())
    memory, x = torch.randn(B, S, D), torch.randn(B, D)
    cache = fast.start(memory, capacity=2)
    fast.step(x, cache)

    def keys() -> list[Tensor]:
        return [memory.keys.clone() for memory in cache.memories if isinstance(memory, SeveralSources)]

    before = keys()
    assert len(before) == 2
    cache.reorder(torch.tensor([1, 0, 2]), sources=False)
    assert all(new.equal(old) for new, old in zip(keys(), before, strict=True))
    cache.reorder(torch.tensor([1, 0, 2]))
    assert not any(new.equal(old) for new, old in zip(keys(), before, strict=True))


def test_a_full_cache_is_rejected() -> None:
    fast = FastDecoder(Decoder(1, BlockConfig(D, H, HIDDEN)))
    cache = fast.start(torch.randn(B, S, D), capacity=1)
    fast.step(torch.randn(B, D), cache)
    with pytest.raises(WrongInput, match="cache is of 1 positions; allowed: at least 2"):
        fast.step(torch.randn(B, D), cache)
