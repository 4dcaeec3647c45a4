import pytest
import torch
from support import EXACT, MANY, B, D, H, T

from limelight.nn import Cache, KeyValues, MultiHeadAttention


@pytest.fixture
def attention() -> MultiHeadAttention:
    return MultiHeadAttention(D, H).requires_grad_(False)


@pytest.mark.parametrize("steps", [[1] * MANY, [5, 1, 1, 60], [MANY]], ids=["one by one", "mixed", "at once"])
def test_self_attention_with_a_cache_equals_the_whole_pass(
    attention: MultiHeadAttention, steps: list[int]
) -> None:
    x = torch.randn(B, MANY, D)
    cache = Cache(MANY)
    pieces = [attention(part, causal=True, cache=cache) for part in x.split(steps, 1)]
    assert cache.length == MANY
    torch.testing.assert_close(torch.cat(pieces, 1), attention(x, causal=True), rtol=1e-5, atol=1e-6)


def test_append_returns_all_keys_and_values_so_far() -> None:
    cache = Cache(T)
    parts = [KeyValues(torch.randn(B, H, n, 3), torch.randn(B, H, n, 3)) for n in (2, 1, 2)]
    for i, part in enumerate(parts):
        keys, values = cache.append(part)
        torch.testing.assert_close(keys, torch.cat([p.keys for p in parts[: i + 1]], 2), **EXACT)
        torch.testing.assert_close(values, torch.cat([p.values for p in parts[: i + 1]], 2), **EXACT)


def test_the_buffer_is_allocated_once() -> None:
    cache = Cache(T)
    one = KeyValues(torch.randn(B, H, 1, 3), torch.randn(B, H, 1, 3))
    addresses = {cache.append(one).keys.data_ptr() for _ in range(T)}
    assert len(addresses) == 1


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0, 2, 2], [1], []])
def test_reorder_keeps_the_rows_of_the_index(attention: MultiHeadAttention, rows: list[int]) -> None:
    x = torch.randn(B, T, D)
    index = torch.tensor(rows, dtype=torch.long)
    cache, expected = Cache(T), Cache(T)
    attention(x[:, :3], causal=True, cache=cache)
    cache.reorder(index)
    attention(x[index, :3], causal=True, cache=expected)
    rest = x[index, 3:]
    torch.testing.assert_close(
        attention(rest, causal=True, cache=cache),
        attention(rest, causal=True, cache=expected),
        rtol=1e-5,
        atol=1e-6,
    )


def test_an_empty_cache_can_be_reordered() -> None:
    cache = Cache(T)
    cache.reorder(torch.tensor([0]))
    assert cache.length == 0


def test_a_full_cache_raises_an_error_and_keeps_its_content(attention: MultiHeadAttention) -> None:
    cache = Cache(2)
    attention(torch.randn(B, 2, D), causal=True, cache=cache)
    with pytest.raises(ValueError, match="cache is of 2 positions; allowed: at least 3"):
        attention(torch.randn(B, 1, D), causal=True, cache=cache)
    assert cache.length == 2


def test_another_batch_size_is_rejected(attention: MultiHeadAttention) -> None:
    cache = Cache(T)
    attention(torch.randn(B, 2, D), causal=True, cache=cache)
    with pytest.raises(ValueError, match="batch size of queries is 1; allowed: 3, that of the cache"):
        attention(torch.randn(1, 1, D), causal=True, cache=cache)


def test_a_capacity_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="capacity is 0; allowed"):
        Cache(0)


def test_a_cache_is_for_self_attention(attention: MultiHeadAttention) -> None:
    with pytest.raises(ValueError, match="memory is given with a cache"):
        attention(torch.randn(B, 1, D), torch.randn(B, T, D), cache=Cache(T))


def test_an_invalid_mask_does_not_change_the_cache(attention: MultiHeadAttention) -> None:
    cache = Cache(T)
    attention(torch.randn(B, 2, D), causal=True, cache=cache)
    with pytest.raises(ValueError, match=r"mask is of shape \(3, 1, 2\); allowed: \(B, T, S\) = \(3, 1, 3\)"):
        attention(torch.randn(B, 1, D), mask=torch.ones(B, 1, 2, dtype=torch.bool), cache=cache)
    assert cache.length == 2


def test_a_mask_covers_the_positions_in_the_cache(attention: MultiHeadAttention) -> None:
    x, cache, mask = torch.randn(B, T, D), Cache(T), torch.ones(B, T, T, dtype=torch.bool).tril()
    mask[:, :, 1] = False
    pieces = [attention(x[:, t : t + 1], mask=mask[:, t : t + 1, : t + 1], cache=cache) for t in range(T)]
    torch.testing.assert_close(torch.cat(pieces, 1), attention(x, mask=mask), rtol=1e-5, atol=1e-6)
