"""The contract of all sequence models: tokens or vectors, with and without padding."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import check_same_seed_same_weights, must_fail
from torch import Tensor, nn

from limelight.config import read
from limelight.errors import WrongInput
from limelight.models.classifier import ClassifierConfig
from limelight.models.encoder import EncoderConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.sizes import Sizes

B, T, V, F, L = 3, 7, 11, 5, 13
SHAPE: dict[str, Any] = {"width": 22, "heads": 2, "depth": 2, "hidden": 17}
LENGTHS = torch.tensor([7, 2, 5])

MODELS: dict[str, EncoderConfig] = {
    "labeller": LabellerConfig(**SHAPE),
    "classifier, mean": ClassifierConfig(**SHAPE, pooling="mean"),
    "classifier, max": ClassifierConfig(**SHAPE, pooling="max"),
    "classifier, class-token": ClassifierConfig(**SHAPE, pooling="class-token"),
    "classifier, attention": ClassifierConfig(**SHAPE, pooling="attention"),
    "classifier, first": ClassifierConfig(**SHAPE, pooling="first", head="tanh"),
    "classifier, as in BERT": ClassifierConfig(**SHAPE, embedding_norm=True, segments=True, head="relu"),
}
each_model = pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
each_input = pytest.mark.parametrize(
    "sizes",
    [Sizes(outputs=L, vocabulary=V, longest=T), Sizes(outputs=L, features=F, longest=T)],
    ids=["tokens", "vectors"],
)


def inputs_of(sizes: Sizes) -> Tensor:
    return torch.randint(V, (B, T)) if sizes.vocabulary else torch.randn(B, T, F)


@each_model
@each_input
def test_one_prediction_per_item_or_per_sequence(config: EncoderConfig, sizes: Sizes) -> None:
    output = config.build(sizes)(inputs_of(sizes))
    assert output.shape == ((B, T, L) if config.kind == "labeller" else (B, L))
    assert output.isfinite().all()


def check_padding(model: nn.Module, inputs: Tensor, per_item: bool) -> None:
    """The content and the amount of padding have no effect."""
    whole = model(inputs, LENGTHS)
    other = inputs.clone()
    for row, length in enumerate(LENGTHS):
        other[row, length:] = 1
        alone = model(inputs[row : row + 1, :length])[0]
        mine = whole[row, :length] if per_item else whole[row]
        torch.testing.assert_close(mine, alone, rtol=1e-5, atol=1e-5)
    changed = model(other, LENGTHS)
    if per_item:
        changed, whole = (torch.cat([x[i, :n] for i, n in enumerate(LENGTHS)]) for x in (changed, whole))
    torch.testing.assert_close(changed, whole, rtol=1e-6, atol=1e-6)


class IgnoresLengths(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.model(inputs)


@each_model
@each_input
@torch.no_grad()
def test_padding_has_no_effect_on_real_items(config: EncoderConfig, sizes: Sizes) -> None:
    model, inputs = config.build(sizes).eval(), inputs_of(sizes)
    check_padding(model, inputs, config.kind == "labeller")
    must_fail(check_padding, IgnoresLengths(model), inputs, config.kind == "labeller")


@each_model
@each_input
def test_every_parameter_gets_a_gradient(config: EncoderConfig, sizes: Sizes) -> None:
    model = config.build(sizes)
    output = model(inputs_of(sizes), LENGTHS)
    (output * torch.randn_like(output)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # The softmax does not depend on a bias of all keys: its gradient is only rounding error.
        assert name.endswith("key.bias") or parameter.grad.abs().max() > 1e-7, name


@each_model
@each_input
def test_the_same_seed_gives_the_same_weights(config: EncoderConfig, sizes: Sizes) -> None:
    check_same_seed_same_weights(lambda: config.build(sizes))


def check_equivariance(function: Callable[[Tensor], Tensor]) -> None:
    inputs = torch.randn(B, T, F)
    order = torch.randperm(T)
    torch.testing.assert_close(function(inputs[:, order]), function(inputs)[:, order], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_without_positions_predictions_are_permutation_equivariant() -> None:
    sizes = Sizes(outputs=1, features=F, longest=T)
    check_equivariance(LabellerConfig(**SHAPE, positions="none").build(sizes).eval())
    for positions in ("sinusoidal", "learned"):
        must_fail(check_equivariance, LabellerConfig(**SHAPE, positions=positions).build(sizes).eval())


@torch.no_grad()
def test_a_causal_labeller_ignores_later_items() -> None:
    sizes = Sizes(outputs=L, vocabulary=V, longest=T)
    inputs = torch.randint(V, (B, T))
    later = inputs.clone()
    later[:, 4:] = (later[:, 4:] + 1) % V
    for causal in (True, False):
        model = LabellerConfig(**SHAPE, causal=causal).build(sizes).eval()
        assert torch.allclose(model(inputs)[:, :4], model(later)[:, :4], atol=1e-6) is causal


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"heads": 3}, "heads is 3; allowed: a divisor of width=22"),
        ({"pooling": "class-token", "causal": True}, "allowed with causal: mean, max, attention"),
        (
            {"pooling": "median"},
            "pooling is 'median'; allowed: 'mean', 'max', 'class-token', 'attention' or 'first'",
        ),
    ],
)
def test_incompatible_settings_are_rejected(values: dict[str, object], message: str) -> None:
    with pytest.raises(WrongInput) as refusal:
        read(ClassifierConfig, SHAPE | values)
    assert message in str(refusal.value)
