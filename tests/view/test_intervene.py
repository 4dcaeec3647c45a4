"""`intervene`: attention weights that are changed while a model runs, with and without taps."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import EXACT, HIDDEN, B, D, H, S, T
from torch import Tensor, nn
from view import foreign

from limelight.bridge import from_torch
from limelight.errors import WrongInput
from limelight.nn import BlockConfig, Decoder, Encoder
from limelight.view import blocked, capture, intervene, off, pattern, temperature, uniform


def torch_encoder() -> nn.TransformerEncoder:
    torch.manual_seed(3)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, HIDDEN, batch_first=True), 2).eval()


def own_encoder() -> Encoder:
    """The same model, with taps."""
    return from_torch(torch_encoder()).eval()


MODELS = pytest.mark.parametrize(
    ("model", "name"),
    [(own_encoder(), "blocks.0.self_attention"), (torch_encoder(), "layers.0.self_attn")],
    ids=["with taps", "of torch"],
)


@MODELS
@torch.no_grad()
def test_nothing_changes_without_changes_and_afterwards(model: nn.Module, name: str) -> None:
    x = torch.randn(B, T, D)
    expected = model(x)
    with intervene(model, {}):
        torch.testing.assert_close(model(x), expected, **EXACT)
    with intervene(model, {name: off()}):
        assert not torch.equal(model(x), expected)
    torch.testing.assert_close(model(x), expected, **EXACT)


@MODELS
@torch.no_grad()
def test_an_output_without_a_head_is_that_without_its_part_of_the_output_projection(
    model: nn.Module, name: str
) -> None:
    x = torch.randn(B, T, D)
    with intervene(model, {name: off(1)}):
        got = model(x)
    twin = torch_encoder()
    layer: Any = twin.layers[0]
    layer.self_attn.out_proj.weight[:, D // H :] = 0.0
    torch.testing.assert_close(got, twin(x), rtol=1e-5, atol=1e-5)


CHANGES: dict[str, tuple[Any, Any]] = {
    "off": (off(1), lambda w: w * torch.tensor([1.0, 0.0])[:, None, None]),
    "uniform": (uniform(0), lambda w: torch.cat((torch.full_like(w[:, :1], 1 / T), w[:, 1:]), 1)),
    "pattern": (pattern(torch.eye(T)), lambda w: torch.eye(T).expand_as(w)),
    "temperature": (temperature(2.0), lambda w: w.sqrt() / w.sqrt().sum(-1, keepdim=True)),
    "blocked": (blocked(2, 3), lambda w: without_edge(w, 2, 3)),
    "function": (lambda w: w.flip(-1), lambda w: w.flip(-1)),
    "several": ([off(0), off(1)], torch.zeros_like),
}


def without_edge(weights: Tensor, query: int, key: int) -> Tensor:
    changed = weights.clone()
    changed[:, :, query, key] = 0.0
    return changed / changed.sum(-1, keepdim=True)


@MODELS
@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_capture_shows_the_changed_weights(model: nn.Module, name: str, change: str) -> None:
    x = torch.randn(B, T, D)
    applied, expected = CHANGES[change]
    before = capture(model, x).attentions
    with intervene(model, {name: applied}):
        after = capture(model, x).attentions
    torch.testing.assert_close(after[0].weights, expected(before[0].weights), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(after[1].weights, before[1].weights)


@MODELS
@torch.no_grad()
def test_a_name_of_a_larger_module_means_all_attention_in_it(model: nn.Module, name: str) -> None:
    with intervene(model, {"": off()}):
        found = capture(model, torch.randn(B, T, D)).attentions
    assert [float(one.weights.abs().sum()) for one in found] == [0.0, 0.0]


@pytest.mark.parametrize(
    "model",
    [foreign.WrittenOut(), foreign.HeadsInTheBatch(), foreign.Grouped(repeat=False), foreign.InnerSoftmax()],
    ids=lambda model: type(model).__name__,
)
@torch.no_grad()
def test_heads_of_handwritten_models_can_be_switched_off(model: nn.Module) -> None:
    x = torch.randn(B, T, D)
    (before,) = capture(model.eval(), x).attentions
    with intervene(model, {"": off(1)}):
        (after,) = capture(model, x).attentions
    kept = [head for head in range(before.weights.shape[1]) if head != 1]
    torch.testing.assert_close(after.weights[:, kept], before.weights[:, kept])
    assert not after.weights[:, 1].any()


@torch.no_grad()
def test_heads_that_are_computed_one_by_one_are_counted() -> None:
    model, x = foreign.OneProjection(), torch.randn(B, T, D)
    for _ in range(2):
        with intervene(model, {"": off(1)}):
            model(x)  # counts from the beginning in each call
            (found,) = capture(model, x).attentions
        assert [bool(head.any()) for head in found.weights.unbind(1)] == [True, False]


@torch.no_grad()
def test_an_edge_is_blocked_at_the_same_position_in_steps() -> None:
    model = Decoder(2, BlockConfig(D, H, HIDDEN)).eval()
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    changes = {"blocks.0.self_attention": blocked(3, 1), "blocks.1.cross_attention": blocked(2, 5, 1)}
    plain = model(x, memory)
    with intervene(model, changes):
        expected = model(x, memory)
        cache = model.start(memory, capacity=T)
        steps = torch.cat([model.step(one, cache) for one in x.split(1, 1)], 1)
    torch.testing.assert_close(steps, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(expected[:, :2], plain[:, :2], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(expected[:, 3], plain[:, 3])


def test_gradients_are_those_of_the_changed_model_with_taps() -> None:
    model, x = own_encoder(), torch.randn(B, T, D)
    with intervene(model, {"blocks.1": off(1)}):
        model(x).sum().backward()
    gradient = model.get_parameter("blocks.1.self_attention.output.weight").grad
    assert gradient is not None
    assert not gradient[:, D // H :].any()
    assert gradient[:, : D // H].any()


def test_an_unknown_module_is_refused_before_the_call() -> None:
    with (
        pytest.raises(WrongInput, match=r"blocks\.7.*blocks\.0\.self_attention"),
        intervene(own_encoder(), {"blocks.7": off()}),
    ):
        raise AssertionError


def test_an_unknown_module_of_a_foreign_model_is_refused_after_the_call() -> None:
    model = torch_encoder()
    with (
        pytest.raises(WrongInput, match=r"layers.9.*layers.0.self_attn"),
        intervene(model, {"layers.9": off()}),
    ):
        model(torch.randn(B, T, D))


def test_invalid_changes_are_refused() -> None:
    with pytest.raises(WrongInput, match="the temperature is 0; allowed: a number above 0"):
        temperature(0)
    model = own_encoder()
    with (
        pytest.raises(WrongInput, match=rf"of shape \(7, 7\); allowed: \({B}, {H}, {T}, {T}\)"),
        intervene(model, {"blocks.0": pattern(torch.eye(S))}),
    ):
        model(torch.randn(B, T, D))


@torch.no_grad()
def test_attention_can_be_patched_from_another_input() -> None:
    model, x, other = torch_encoder(), torch.randn(B, T, D), torch.randn(B, T, D)
    found = capture(model, other).attentions[0].weights
    with intervene(model, {"layers.0.self_attn": pattern(found)}):
        patched = capture(model, x).attentions[0].weights
    torch.testing.assert_close(patched, found)


@torch.no_grad()
def test_fused_kernels_are_used_again_afterwards() -> None:
    model, x = torch_encoder(), torch.randn(B, T, D)
    for enabled in (True, False):
        torch.backends.mha.set_fastpath_enabled(enabled)
        with intervene(model, {"": off()}):
            model(x)
        assert torch.backends.mha.get_fastpath_enabled() == enabled
    torch.backends.mha.set_fastpath_enabled(True)
    assert torch.backends.cuda.flash_sdp_enabled()
    q = torch.randn(B, H, T, 4)
    torch.testing.assert_close(F.scaled_dot_product_attention(q, q, q), foreign.explicit(q, q, q) @ q)
