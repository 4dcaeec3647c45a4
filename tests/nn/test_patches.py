import pytest
import torch
import torch.nn.functional as F

from limelight.nn import PatchEmbedding

CHANNELS, PATCH, WIDTH = 3, 2, 13


def test_patch_embedding_equals_a_convolution_with_the_stride_of_a_patch() -> None:
    embedding = PatchEmbedding(CHANNELS, PATCH, WIDTH)
    images = torch.randn(5, CHANNELS, 3 * PATCH, 7 * PATCH)
    kernel = embedding.project.weight.view(WIDTH, CHANNELS, PATCH, PATCH)
    expected = F.conv2d(images, kernel, embedding.project.bias, stride=PATCH).flatten(2).transpose(1, 2)
    torch.testing.assert_close(embedding(images), expected, rtol=1e-5, atol=1e-5)


def test_patches_are_ordered_row_by_row() -> None:
    embedding = PatchEmbedding(1, 2, 1)
    with torch.no_grad():
        embedding.project.weight.fill_(1.0)
        embedding.project.bias.zero_()
    image = torch.zeros(1, 1, 4, 6)
    image[0, 0, 0, 3] = 1.0  # the second patch of the first row
    image[0, 0, 2, 0] = 2.0  # the first patch of the second row
    assert embedding(image)[0, :, 0].tolist() == [0.0, 1.0, 0.0, 2.0, 0.0, 0.0]


def test_an_empty_batch_works() -> None:
    assert PatchEmbedding(CHANNELS, PATCH, WIDTH)(torch.randn(0, CHANNELS, 4, 6)).shape == (0, 6, WIDTH)


@pytest.mark.parametrize("shape", [(5, CHANNELS, 5, 4), (5, CHANNELS, 4, 5), (5, 1, 4, 4), (CHANNELS, 4, 4)])
def test_images_that_cannot_be_cut_into_patches_are_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="images is of shape"):
        PatchEmbedding(CHANNELS, PATCH, WIDTH)(torch.randn(shape))


def test_images_of_bytes_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"images is of type torch.uint8; allowed: floating-point"):
        PatchEmbedding(CHANNELS, PATCH, WIDTH)(torch.zeros(5, CHANNELS, 4, 4, dtype=torch.uint8))
