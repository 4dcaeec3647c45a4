"""Figures of image models."""

import numpy as np
import pytest
import torch
from support import not_none

from limelight.errors import WrongInput
from limelight.view import (
    draw_confusion,
    draw_image_grid,
    draw_patch_attention,
    draw_position_similarity,
    rollout,
)


def test_rollout_multiplies_the_layers_in_order() -> None:
    """Two tokens: in layer `cross` both attend to the second; in layer `stay` each attends to itself."""
    stay = torch.eye(2).expand(3, 2, 2)
    cross = torch.tensor([[0.0, 1.0], [0.0, 1.0]]).expand(3, 2, 2)
    assert rollout([stay, cross]).tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert rollout([stay, stay]).equal(torch.eye(2))
    torch.manual_seed(1)
    layers = list(torch.randn(4, 3, 7, 7).softmax(-1))
    torch.testing.assert_close(rollout(layers).sum(-1), torch.ones(7))
    first, second = (layer.mean(0) + torch.eye(7) for layer in layers[:2])
    torch.testing.assert_close(rollout(layers[:2]), second @ first / 4)


def test_rollout_of_no_layers_raises_an_error() -> None:
    with pytest.raises(WrongInput, match="layers is empty"):
        rollout([])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("heads", [1, 5])
def test_each_map_is_drawn_over_the_image(channels: int, heads: int) -> None:
    image = torch.randint(256, (channels, 8, 12), dtype=torch.uint8)
    layers, rollout_map = torch.rand(3, heads, 2, 3), torch.rand(2, 3)
    figure = draw_patch_attention(image, layers, rollout_map, title="attention")
    first, *drawn = [axes for axes in figure.axes if axes.images]
    names = [f"layer {layer}, head {head}" for layer in range(3) for head in range(heads)]
    assert [axes.get_title() for axes in drawn] == ["attention rollout", *names]
    pixels = image.permute(1, 2, 0).numpy()
    np.testing.assert_array_equal(first.images[0].get_array(), pixels[..., 0] if channels == 1 else pixels)
    for axes, map_yx in zip(drawn, [rollout_map, *layers.flatten(0, 1)], strict=True):
        background, overlay = axes.images
        np.testing.assert_array_equal(background.get_array(), first.images[0].get_array())
        np.testing.assert_array_equal(overlay.get_array(), map_yx.numpy())
        assert list(overlay.get_extent()) == [-0.5, 11.5, 7.5, -0.5]


def test_wrong_predictions_are_framed_in_another_colour() -> None:
    images = torch.randint(256, (11, 3, 4, 4), dtype=torch.uint8)
    correct = [i % 3 > 0 for i in range(11)]
    figure = draw_image_grid(images, [f"number {i}" for i in range(11)], correct)
    drawn = [axes for axes in figure.axes if axes.images]
    colours = [axes.spines["top"].get_edgecolor() for axes in drawn]
    assert len(set(colours)) == 2
    assert [colour == colours[1] for colour in colours] == correct


def test_the_confusion_matrix_shows_counts_and_shares() -> None:
    counts = torch.tensor([[8, 2], [1, 3]])
    axes = draw_confusion(counts, ["cat", "dog"]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["8", "2", "1", "3"]
    np.testing.assert_allclose(not_none(axes.images[0].get_array()), [[0.8, 0.2], [0.25, 0.75]])
    assert axes.get_ylabel() == "true class"
    assert axes.get_xlabel() == "predicted class"


def test_position_similarity_is_the_cosine_of_the_vectors() -> None:
    vectors = torch.randn(6, 5)
    fine = draw_position_similarity(torch.randn(33 * 20, 5), 33, 20)
    assert len(fine.axes) == 11 * 7 + 1
    figure = draw_position_similarity(vectors, 2, 3)
    maps = [not_none(axes.images[0].get_array()) for axes in figure.axes if axes.images][:6]
    expected = torch.nn.functional.cosine_similarity(vectors[4:5], vectors).view(2, 3)
    np.testing.assert_allclose(maps[4], expected.numpy(), rtol=1e-5)


def test_the_colours_of_position_similarity_cover_exactly_its_values() -> None:
    """Also vectors that are all similar give a contrast."""
    for vectors in (torch.randn(6, 5), 7 + torch.randn(6, 5)):
        figure = draw_position_similarity(vectors, 2, 3)
        images = [axes.images[0] for axes in figure.axes if axes.images][:6]
        values = np.stack([not_none(image.get_array()) for image in images])
        for image in images:
            assert image.get_clim() == (values.min(), values.max())


def test_maps_of_a_wrong_shape_raise_an_error() -> None:
    with pytest.raises(WrongInput, match=r"layers is of shape \(3, 2, 2\) with a rollout of \(2, 2\)"):
        draw_patch_attention(torch.zeros(1, 4, 4, dtype=torch.uint8), torch.rand(3, 2, 2), torch.rand(2, 2))
