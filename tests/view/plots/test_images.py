"""Pictures of images: what is drawn is what was given."""

import numpy as np
import pytest
import torch

from limelight.errors import WrongInput
from limelight.view import draw_confusion, draw_looks, draw_sheet, draw_similarities, rollout


def test_rollout_follows_attention_through_the_layers() -> None:
    """Two items: the second layer's first item looks at the second alone, the first layer's at themselves."""
    stay = torch.eye(2).expand(3, 2, 2)
    cross = torch.tensor([[0.0, 1.0], [0.0, 1.0]]).expand(3, 2, 2)
    assert rollout([stay, cross]).tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert rollout([stay, stay]).equal(torch.eye(2))
    torch.manual_seed(1)
    layers = list(torch.randn(4, 3, 7, 7).softmax(-1))
    torch.testing.assert_close(rollout(layers).sum(-1), torch.ones(7))
    first, second = (layer.mean(0) + torch.eye(7) for layer in layers[:2])
    torch.testing.assert_close(rollout(layers[:2]), second @ first / 4)


def test_rollout_of_nothing_is_refused() -> None:
    with pytest.raises(WrongInput, match="layers is empty"):
        rollout([])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("heads", [1, 5])
def test_each_map_lies_over_the_image(channels: int, heads: int) -> None:
    image = torch.randint(256, (channels, 8, 12), dtype=torch.uint8)
    layers, whole = torch.rand(3, heads, 2, 3), torch.rand(2, 3)
    figure = draw_looks(image, layers, whole, title="what is seen")
    first, *drawn = [axes for axes in figure.axes if axes.images]
    names = [f"layer {layer}, head {head}" for layer in range(3) for head in range(heads)]
    assert [axes.get_title() for axes in drawn] == ["rollout of all", *names]
    pixels = image.permute(1, 2, 0).numpy()
    np.testing.assert_array_equal(first.images[0].get_array(), pixels[..., 0] if channels == 1 else pixels)
    for axes, map_yx in zip(drawn, [whole, *layers.flatten(0, 1)], strict=True):
        under, over = axes.images
        np.testing.assert_array_equal(under.get_array(), first.images[0].get_array())
        np.testing.assert_array_equal(over.get_array(), map_yx.numpy())
        assert over.get_extent() == [-0.5, 11.5, 7.5, -0.5]


def test_a_sheet_frames_what_was_wrong_in_another_colour() -> None:
    images = torch.randint(256, (11, 3, 4, 4), dtype=torch.uint8)
    right = [i % 3 > 0 for i in range(11)]
    figure = draw_sheet(images, [f"number {i}" for i in range(11)], right)
    drawn = [axes for axes in figure.axes if axes.images]
    colours = [axes.spines["top"].get_edgecolor() for axes in drawn]
    assert len(set(colours)) == 2
    assert [colour == colours[1] for colour in colours] == right


def test_the_confusion_matrix_shows_counts_and_shares() -> None:
    counts = torch.tensor([[8, 2], [1, 3]])
    axes = draw_confusion(counts, ["cat", "dog"]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["8", "2", "1", "3"]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.8, 0.2], [0.25, 0.75]])
    assert axes.get_ylabel() == "what it is"


def test_similarities_are_cosines_of_position_vectors() -> None:
    vectors = torch.randn(6, 5)
    fine = draw_similarities(torch.randn(33 * 20, 5), 33, 20)
    assert len(fine.axes) == 11 * 7 + 1
    figure = draw_similarities(vectors, 2, 3)
    maps = [axes.images[0].get_array() for axes in figure.axes if axes.images][:6]
    expected = torch.nn.functional.cosine_similarity(vectors[4:5], vectors).view(2, 3)
    np.testing.assert_allclose(maps[4], expected.numpy(), rtol=1e-5)


def test_maps_of_another_shape_are_refused() -> None:
    with pytest.raises(WrongInput, match=r"layers is of shape \(3, 2, 2\) with a whole of \(2, 2\)"):
        draw_looks(torch.zeros(1, 4, 4, dtype=torch.uint8), torch.rand(3, 2, 2), torch.rand(2, 2))
