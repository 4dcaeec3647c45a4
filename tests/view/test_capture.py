from copy import deepcopy
from typing import Any

import pytest
import torch
from support import EXACT, HIDDEN, B, D, H, S, T
from torch import nn

from limelight.nn import BlockConfig, Decoder, Encoder, MultiHeadAttention, padding_mask
from limelight.view import watch


def test_watch_returns_the_weights_of_all_heads_by_the_name_of_the_tap() -> None:
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


def test_a_padded_query_has_zero_weights() -> None:
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


def test_watch_returns_one_tensor_per_pass() -> None:
    model = Decoder(1, BlockConfig(D, H, HIDDEN)).eval()
    with torch.no_grad(), watch(model) as seen:
        cache = model.start(torch.randn(B, S, D), capacity=T)
        for _ in range(T):
            model.step(torch.randn(B, 1, D), cache)
    passes = seen["blocks.0.self_attention.weights"]
    assert [w.shape[-1] for w in passes] == [1, 2, 3, 4, 5]


def test_only_the_named_modules_are_watched() -> None:
    model = Encoder(3, BlockConfig(D, H, HIDDEN))
    with watch(model, "blocks.1") as seen:
        blocks: Any = model.blocks
        assert [b.self_attention.weights.watched for b in blocks] == [False, True, False]
        model(torch.randn(B, T, D))
    assert list(seen) == ["blocks.1.self_attention.weights"]
    assert len(seen["blocks.1.self_attention.weights"]) == 1


def test_a_name_does_not_select_modules_that_only_start_with_it() -> None:
    model = Encoder(11, BlockConfig(D, H, HIDDEN))
    with watch(model, "blocks.1") as seen:
        pass
    assert list(seen) == ["blocks.1.self_attention.weights"]


def test_watching_ends_with_the_context_even_after_an_error() -> None:
    model = MultiHeadAttention(D, H)
    with pytest.raises(RuntimeError), watch(model) as seen:
        raise RuntimeError
    assert not model.weights.watched
    model(torch.randn(B, T, D))
    assert seen == {"weights": []}


def test_contexts_of_watch_can_be_nested() -> None:
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


def test_collected_weights_are_detached_from_the_graph() -> None:
    model = MultiHeadAttention(D, H)
    with watch(model) as seen:
        model(torch.randn(B, T, D))
    assert not seen["weights"][0].requires_grad


def test_the_error_for_a_model_without_taps_contains_advice() -> None:
    with (
        pytest.raises(ValueError, match=r"a Linear without taps; allowed: .*view.capture"),
        watch(nn.Linear(2, 3)),
    ):
        pass


def test_the_error_for_an_unknown_name_lists_the_known_names() -> None:
    model = Encoder(1, BlockConfig(D, H, HIDDEN))
    with (
        pytest.raises(ValueError, match=r"'block.0'; .* blocks.0.self_attention.weights"),
        watch(model, "block.0"),
    ):
        pass


@torch.no_grad()
def test_weights_are_written_into_the_tensors_of_an_earlier_watch() -> None:
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


def test_tensors_are_not_reused_for_other_shapes_or_with_gradients() -> None:
    model = Encoder(1, BlockConfig(D, H, HIDDEN))
    with torch.no_grad(), watch(model) as seen:
        model(torch.randn(B, T, D))
    (before,) = (passes[0].clone() for passes in seen.values())
    with torch.no_grad(), watch(model, into=seen) as longer:
        model(torch.randn(B, S, D))
    with watch(model, into=seen) as learning:
        model(torch.randn(B, T, D)).sum().backward()
    for captured, size in ((longer, S), (learning, T)):
        ((weights,),) = captured.values()
        assert weights.shape == (B, H, size, size)
    torch.testing.assert_close(seen["blocks.0.self_attention.weights"][0], before, **EXACT)
