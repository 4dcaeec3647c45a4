from copy import deepcopy

import pytest
import torch
from support import EXACT, HIDDEN, B, D, H, S, T
from torch import nn

from limelight.nn import BlockConfig, Decoder, Encoder, MultiHeadAttention, padding_mask
from limelight.view import watch


def test_every_tap_is_seen_under_its_name_with_every_head() -> None:
    model = nn.ModuleDict(
        {"encoder": Encoder(2, BlockConfig(D, H, HIDDEN)), "decoder": Decoder(1, BlockConfig(D, H, HIDDEN))}
    )
    source, target = torch.randn(B, S, D), torch.randn(B, T, D)
    with watch(model) as seen:
        model["decoder"](target, model["encoder"](source))
    assert {name: [tuple(w.shape) for w in passes] for name, passes in seen.items()} == {
        "encoder.blocks.0.self_attention.weights": [(B, H, S, S)],
        "encoder.blocks.1.self_attention.weights": [(B, H, S, S)],
        "decoder.blocks.0.self_attention.weights": [(B, H, T, T)],
        "decoder.blocks.0.cross_attention.weights": [(B, H, T, S)],
    }
    for (weights,) in seen.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_a_padded_query_looks_at_nothing() -> None:
    model = nn.ModuleDict(
        {"encoder": Encoder(1, BlockConfig(D, H, HIDDEN)), "decoder": Decoder(1, BlockConfig(D, H, HIDDEN))}
    )
    source_mask, target_mask = padding_mask([7, 2, 0]), padding_mask([1, 5, 3])
    with watch(model) as seen:
        memory = model["encoder"](torch.randn(B, S, D), source_mask)
        model["decoder"](torch.randn(B, T, D), memory, target_mask, source_mask)
    sums = {name: passes[0].sum(-1)[:, 0] for name, passes in seen.items()}
    rows = {"encoder": source_mask[:, 0], "decoder": target_mask[:, 0]}
    seeing = torch.tensor([True, True, False])[:, None]  # the third source is empty
    for name, got in sums.items():
        expected = rows[name.split(".")[0]] & (seeing if "cross" in name else True)
        torch.testing.assert_close(got, expected.float())


def test_each_pass_is_kept() -> None:
    model = Decoder(1, BlockConfig(D, H, HIDDEN)).eval()
    with torch.no_grad(), watch(model) as seen:
        cache = model.start(torch.randn(B, S, D), capacity=T)
        for _ in range(T):
            model.step(torch.randn(B, 1, D), cache)
    passes = seen["blocks.0.self_attention.weights"]
    assert [w.shape[-1] for w in passes] == [1, 2, 3, 4, 5]


def test_names_choose_what_is_watched_and_the_rest_stays_fused() -> None:
    model = Encoder(3, BlockConfig(D, H, HIDDEN))
    with watch(model, "blocks.1") as seen:
        assert [b.self_attention.weights.watched for b in model.blocks] == [False, True, False]
        model(torch.randn(B, T, D))
    assert list(seen) == ["blocks.1.self_attention.weights"]
    assert len(seen["blocks.1.self_attention.weights"]) == 1


def test_a_name_is_whole_words() -> None:
    model = Encoder(11, BlockConfig(D, H, HIDDEN))
    with watch(model, "blocks.1") as seen:
        pass
    assert list(seen) == ["blocks.1.self_attention.weights"]


def test_watching_ends_with_its_context_also_on_an_error() -> None:
    model = MultiHeadAttention(D, H)
    with pytest.raises(RuntimeError), watch(model) as seen:
        raise RuntimeError
    assert not model.weights.watched
    model(torch.randn(B, T, D))
    assert seen == {"weights": []}


def test_two_may_watch_at_once() -> None:
    model = MultiHeadAttention(D, H)
    with watch(model) as first:
        with watch(model) as second:
            model(torch.randn(B, T, D))
        model(torch.randn(B, T, D))
    assert len(first["weights"]) == 2
    assert len(second["weights"]) == 1
    torch.testing.assert_close(first["weights"][0], second["weights"][0], **EXACT)


def test_a_copy_of_a_watched_model_is_not_watched() -> None:
    model = MultiHeadAttention(D, H)
    with watch(model):
        twin = deepcopy(model)
    assert not twin.weights.watched
    with watch(twin) as seen:
        twin(torch.randn(B, T, D))
    assert len(seen["weights"]) == 1


def test_what_is_seen_does_not_keep_the_graph() -> None:
    model = MultiHeadAttention(D, H)
    with watch(model) as seen:
        model(torch.randn(B, T, D))
    assert not seen["weights"][0].requires_grad


def test_a_model_without_taps_is_told_what_to_do() -> None:
    with (
        pytest.raises(ValueError, match=r"a Linear without taps; allowed: .*bridge.from_torch"),
        watch(nn.Linear(2, 3)),
    ):
        pass


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    model = Encoder(1, BlockConfig(D, H, HIDDEN))
    with (
        pytest.raises(ValueError, match=r"'block.0'; .* blocks.0.self_attention.weights"),
        watch(model, "block.0"),
    ):
        pass


@torch.no_grad()
def test_what_nobody_needs_any_more_is_written_over() -> None:
    model = Encoder(2, BlockConfig(D, H, HIDDEN)).eval()
    first, second = torch.randn(B, T, D), torch.randn(B, T, D)
    mask = padding_mask([5, 2, 0])
    with watch(model) as expected:
        model(second, mask)
    with watch(model) as seen:
        model(first, mask)
    places = [passes[0].data_ptr() for passes in seen.values()]
    with watch(model, into=seen) as again:
        model(second, mask)
    assert [passes[0].data_ptr() for passes in again.values()] == places
    for name, (weights,) in again.items():
        torch.testing.assert_close(weights, expected[name][0], **EXACT)


def test_what_does_not_fit_or_is_needed_for_gradients_gets_memory_of_its_own() -> None:
    model = Encoder(1, BlockConfig(D, H, HIDDEN))
    with torch.no_grad(), watch(model) as seen:
        model(torch.randn(B, T, D))
    (before,) = (passes[0].clone() for passes in seen.values())
    with torch.no_grad(), watch(model, into=seen) as longer:
        model(torch.randn(B, S, D))
    with watch(model, into=seen) as learning:
        model(torch.randn(B, T, D)).sum().backward()
    for (weights,), size in ((*longer.values(), S), (*learning.values(), T)):
        assert weights.shape == (B, H, size, size)
    torch.testing.assert_close(seen["blocks.0.self_attention.weights"][0], before, **EXACT)
