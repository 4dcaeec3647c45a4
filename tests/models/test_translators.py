"""The contract of all models that generate a sequence: with and without padding, step by step."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import check_same_seed_same_weights, must_fail
from torch import Tensor, nn

from limelight.config import read
from limelight.errors import WrongInput
from limelight.models.recurrent import RecurrentConfig
from limelight.models.sizes import Sizes
from limelight.models.transformer import TransformerConfig
from limelight.view import watch

B, S, T, V, L = 3, 7, 5, 11, 13
SIZES = Sizes(outputs=L, vocabulary=V, longest=17)
SHARED = Sizes(outputs=L, vocabulary=L, longest=17, shared=True)
LENGTHS, TARGET_LENGTHS = torch.tensor([7, 2, 5]), torch.tensor([3, 5, 1])
BLOCKS: dict[str, Any] = {"width": 22, "heads": 2, "hidden": 19, "encoder_depth": 3, "decoder_depth": 2}

MODELS: dict[str, tuple[Any, Sizes]] = {
    "transformer": (TransformerConfig(**BLOCKS), SIZES),
    "transformer, pre-norm, learned positions": (
        TransformerConfig(**BLOCKS, norm="pre", positions="learned", tied="output"),
        SIZES,
    ),
    "transformer, no positions": (TransformerConfig(**BLOCKS, positions="none"), SIZES),
    "transformer, rotary": (TransformerConfig(**(BLOCKS | {"heads": 1, "positions": "rotary"})), SIZES),
    "transformer, tied": (TransformerConfig(**BLOCKS, tied="all"), SHARED),
    "recurrent": (RecurrentConfig(width=19, embedding=23, depth=2), SIZES),
    "recurrent, one direction": (RecurrentConfig(width=19, embedding=23, bidirectional=False), SIZES),
}
each_model = pytest.mark.parametrize(("config", "sizes"), MODELS.values(), ids=MODELS)


def sentences() -> tuple[Tensor, Tensor]:
    return torch.randint(V, (B, S)), torch.randint(L, (B, T))


@each_model
def test_there_are_logits_for_each_real_token(config: Any, sizes: Sizes) -> None:
    model = config.build(sizes)
    source, target = sentences()
    assert model(source, target).shape == (B * T, L)
    packed = model(source, target, LENGTHS, TARGET_LENGTHS)
    assert packed.shape == (9, L)
    assert packed.isfinite().all()


def check_padding(model: nn.Module, source: Tensor, target: Tensor) -> None:
    """The content and the amount of padding have no effect."""
    together = model(source, target, LENGTHS, TARGET_LENGTHS).split(TARGET_LENGTHS.tolist())
    for row, mine in enumerate(together):
        length, target_length = LENGTHS[row], TARGET_LENGTHS[row]
        alone = model(source[row : row + 1, :length], target[row : row + 1, :target_length])
        torch.testing.assert_close(mine, alone, rtol=1e-5, atol=1e-5)


class IgnoresSourceLengths(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, target: Tensor, lengths: Any = None, targets: Any = None) -> Tensor:
        return self.model(source, target, None, targets)


@each_model
@torch.no_grad()
def test_padding_has_no_effect_on_real_tokens(config: Any, sizes: Sizes) -> None:
    model = config.build(sizes).eval()
    check_padding(model, *sentences())
    must_fail(check_padding, IgnoresSourceLengths(model), *sentences())


def check_causality(model: Callable[[Tensor, Tensor], Tensor]) -> None:
    source, target = sentences()
    later = target.clone()
    later[:, 3:] = (later[:, 3:] + 1) % L
    before, after = (model(source, t).unflatten(0, (B, T)) for t in (target, later))
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=1e-6, atol=1e-6)
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-6)


@each_model
@torch.no_grad()
def test_a_later_token_never_changes_an_earlier_output_in_training_or_evaluation(
    config: Any, sizes: Sizes
) -> None:
    model = config.build(sizes)
    check_causality(model.train())
    check_causality(model.eval())
    must_fail(check_causality, lambda source, target: model(source, target.flip(1)))


def step_by_step(model: Any, source: Tensor, target: Tensor) -> Tensor:
    state = model.start(source, LENGTHS, capacity=T)
    return torch.stack([model.step(tokens, state) for tokens in target.unbind(1)], 1)


@each_model
@torch.no_grad()
def test_step_by_step_equals_all_at_once(config: Any, sizes: Sizes) -> None:
    model = config.build(sizes).eval()
    source, target = sentences()
    whole = model(source, target, LENGTHS).unflatten(0, (B, T))
    torch.testing.assert_close(step_by_step(model, source, target), whole, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(step_by_step(model, source.flip(1), target), whole, atol=1e-4)


@each_model
@torch.no_grad()
def test_a_reordered_state_continues_the_selected_sentences(config: Any, sizes: Sizes) -> None:
    model = config.build(sizes).eval()
    source, target = sentences()
    whole = step_by_step(model, source, target)
    state = model.start(source, LENGTHS, capacity=T)
    model.step(target[:, 0], state)
    kept = torch.tensor([2, 0, 2, 1])
    state.reorder(kept)
    torch.testing.assert_close(model.step(target[kept, 1], state), whole[kept, 1], rtol=1e-5, atol=1e-5)
    must_fail(torch.testing.assert_close, model.step(target[kept, 2], state), whole[[0, 1, 2, 0], 2])


@each_model
def test_every_parameter_gets_a_gradient(config: Any, sizes: Sizes) -> None:
    model = config.build(sizes)
    output = model(*sentences(), LENGTHS, TARGET_LENGTHS)
    (output * torch.randn_like(output)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name.endswith("key.bias") or parameter.grad.abs().max() > 1e-7, name


@each_model
def test_the_same_seed_gives_the_same_weights(config: Any, sizes: Sizes) -> None:
    check_same_seed_same_weights(lambda: config.build(sizes))


@each_model
@torch.no_grad()
def test_cross_attention_of_every_target_token_sums_to_one_over_the_real_source(
    config: Any, sizes: Sizes
) -> None:
    model = config.build(sizes).eval()
    with watch(model) as seen:
        model(*sentences(), LENGTHS)
    cross = [torch.cat(passes, 2) for name, passes in seen.items() if "self_attention" not in name]
    assert len(cross) == getattr(config, "decoder_depth", 1)
    for weights in cross:
        assert weights.shape == (B, getattr(config, "heads", 1), T, S)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        for row, length in enumerate(LENGTHS):
            assert (weights[row, ..., length:] == 0).all()


def test_tied_layers_share_one_matrix() -> None:
    def count(**settings: Any) -> int:
        return sum(p.numel() for p in TransformerConfig(**BLOCKS, **settings).build(SHARED).parameters())

    matrix = L * BLOCKS["width"]
    assert count() == count(tied="output") + matrix + L == count(tied="all") + 2 * matrix + L
    with pytest.raises(
        WrongInput, match=r"model\.tied is 'all'; allowed: .* unless task\.vocabulary\.shared"
    ):
        TransformerConfig(**BLOCKS, tied="all").build(SIZES)


def test_a_depth_of_zero_is_rejected() -> None:
    with pytest.raises(WrongInput, match="decoder_depth is 0"):
        read(TransformerConfig, {"decoder_depth": 0})
