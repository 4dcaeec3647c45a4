"""The Vision Transformer: patches, positions, pooling, regularisation, and no unneeded computation."""

import re
from typing import Any

import pytest
import torch
from support import check_same_seed_same_weights, must_fail, not_none
from torch import Tensor

from limelight.config import read
from limelight.errors import WrongInput
from limelight.models.sizes import Sizes
from limelight.models.vit import ViT, ViTConfig
from limelight.view import watch

SIZES = Sizes(outputs=7, image=(3, 10, 15))
SETTINGS: dict[str, Any] = {"patch": 5, "width": 22, "heads": 2, "hidden": 13, "depth": 3}


def build(sizes: Sizes = SIZES, **settings: object) -> ViT:
    torch.manual_seed(1)
    return read(ViTConfig, SETTINGS | settings).build(sizes)


def images(rows: int = 10, columns: int = 15) -> Tensor:
    torch.manual_seed(2)
    return torch.randn(11, 3, rows, columns)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_block_computes_only_the_class_token_and_the_output_is_the_same(norm: str) -> None:
    model = build(norm=norm).eval()
    x = images()
    with watch(model) as seen:
        whole = model(x)
    torch.testing.assert_close(model(x), whole, rtol=1e-5, atol=1e-5)
    assert seen["encoder.blocks.2.self_attention.weights"][0].shape == (11, 2, 7, 7)
    shapes = []
    last: Any = model.encoder.blocks[-1]
    last.feedforward.register_forward_hook(lambda _, given, __: shapes.append(tuple(given[0].shape)))
    model(x)
    assert shapes == [(11, 1, 22)]
    with torch.no_grad():
        last.feedforward.expand.bias.add_(torch.randn(13))
    must_fail(torch.testing.assert_close, model(x), whole)


def test_gradients_equal_those_of_a_last_block_that_computes_all_tokens() -> None:
    model, x = build(), images()
    parameters = list(model.parameters())
    fast = torch.autograd.grad(model(x).square().sum(), parameters)
    with watch(model):
        whole = torch.autograd.grad(model(x).square().sum(), parameters)
    for one, other in zip(fast, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert one.abs().sum() > 0


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize("size", [(10, 15), (20, 10)])
def test_all_tensors_are_on_the_device_of_the_model(positions: str, size: tuple[int, int]) -> None:
    model = build(positions=positions).to("meta")
    assert model(images(*size).to("meta")).device.type == "meta"


@pytest.mark.parametrize("pooling", ["class-token", "mean"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_the_output_depends_on_the_positions_of_patches(pooling: str, positions: str) -> None:
    model, x = build(pooling=pooling, positions=positions).eval(), images()
    with torch.no_grad():
        for parameter in model.positions.parameters():
            parameter.mul_(50)  # learned positions are small at initialisation
    swapped = torch.cat((x[..., 5:10], x[..., :5], x[..., 10:]), -1)
    assert (model(x) - model(swapped)).abs().max() > 1e-3
    with torch.no_grad():
        model.positions.forward = lambda x, rows, columns: x  # type: ignore[method-assign]
    torch.testing.assert_close(model(x), model(swapped), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_images_of_another_size_are_accepted(positions: str) -> None:
    model = build(positions=positions).eval()
    assert model(images(20, 25)).shape == (11, 7)
    assert model.positions.vectors(2, 3).shape == (6, 22)


def test_interpolated_positions_keep_a_linear_gradient() -> None:
    """A table that increases linearly from left to right does so on a finer grid, too."""
    positions = build(Sizes(outputs=7, image=(3, 40, 40))).positions
    with torch.no_grad():
        not_none(positions.table).copy_(torch.arange(8.0).repeat(8).unsqueeze(1).expand(-1, 22))
    fine = positions.vectors(8, 16).unflatten(0, (8, 16))[:, 3:-3, 0]
    torch.testing.assert_close(fine.diff(dim=1), torch.full((8, 9), 0.5), rtol=0, atol=0.1)
    torch.testing.assert_close(positions.vectors(8, 8), positions.table)


def test_patch_dropout_keeps_different_patches_of_each_image_in_training() -> None:
    model, x = build(patch_dropout=0.5), images()
    lengths = []
    model.encoder.register_forward_hook(lambda _, given, __: lengths.append(given[0].shape[1]))
    first, second = model(x), model(x)
    assert not first.equal(second)
    torch.testing.assert_close(model.eval()(x), model(x))
    assert lengths == [4, 4, 7, 7]


def test_every_patch_is_kept_equally_often() -> None:
    model = build(patch_dropout=0.5)
    tokens = torch.arange(6.0).view(1, 6, 1).expand(9_000, -1, 22)
    counts = model._drop_patches(tokens)[:, :, 0].flatten().long().bincount()
    assert (counts - 4_500).abs().max() < 6 * (9_000 * 0.25) ** 0.5


def test_stochastic_depth_increases_with_the_block_and_keeps_the_mean() -> None:
    model, x = build(stochastic_depth=0.5), images()
    blocks: Any = model.encoder.blocks
    assert [block.self_residual.skip for block in blocks] == [0.0, 0.25, 0.5]
    assert [block.feedforward_residual.skip for block in blocks] == [0.0, 0.25, 0.5]
    residual, tokens = blocks[2].self_residual, torch.randn(11, 7, 22)
    added = torch.stack([residual(tokens, torch.tanh) for _ in range(3_000)]).mean(0)
    residual.eval()
    torch.testing.assert_close(added, residual(tokens, torch.tanh), rtol=0, atol=0.15)
    assert not model(x).equal(model(x))
    assert model.eval()(x).equal(model(x))


def test_mimetic_initialisation_is_near_the_identity() -> None:
    def products(init: str) -> tuple[Tensor, Tensor]:
        attention: Any = build(init=init, width=48, heads=2).encoder.blocks[1].self_attention
        query, key = attention.query.weight[:24], attention.key.weight[:24]
        mixed = attention.value.weight.T @ attention.output.weight.T
        return (query.T @ key).detach(), mixed.detach()

    def ratio(matrix: Tensor) -> float:
        """The ratio of the mean diagonal element to the mean size of the other elements."""
        others = matrix[~torch.eye(len(matrix), dtype=torch.bool)].abs().mean()
        return float(matrix.diagonal().mean() / others)

    scores, mixed = products("mimetic")
    assert ratio(scores) > 4
    assert ratio(mixed) < -4
    assert 0.3 < -float(mixed.diagonal().mean()) < 0.5
    assert max(abs(ratio(product)) for product in products("xavier")) < 1


def test_the_same_seed_gives_the_same_weights() -> None:
    check_same_seed_same_weights(lambda: ViTConfig(**SETTINGS).build(SIZES))


def test_the_patch_size_must_divide_the_image_size() -> None:
    with pytest.raises(WrongInput, match=r"model\.patch is 4; allowed: a divisor of the images' 10 × 15"):
        build(patch=4)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"init": "mimetic", "heads": 2, "key_value_heads": 1}, "allowed with init='mimetic': heads=2"),
        ({"distillation": "token", "pooling": "mean"}, "allowed with distillation: 'class-token'"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput, match=re.escape(words)):
        read(ViTConfig, {"kind": "vit", **values})
