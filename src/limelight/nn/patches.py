"""Images as sequences."""

from torch import Tensor, nn

from limelight.nn.errors import check_axes, check_size, wrong


class PatchEmbedding(nn.Module):
    """Cuts an image into square patches and projects each to a token (Dosovitskiy et al. 2021).

    The patches go row by row; a token sees its patch's pixels channel by channel, so that the
    projection is the flattened kernel of a convolution with stride `patch`.
    """

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.channels = check_size("channels", channels)
        self.patch = check_size("patch", patch)
        self.project = nn.Linear(channels * patch * patch, check_size("width", width))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, P, D)"""
        check_axes("images", images, "(B, C, Y, X)")
        batch, channels, rows, columns = images.shape
        size = self.patch
        if channels != self.channels or rows % size or columns % size:
            allowed = f"(B, {self.channels}, Y, X), Y and X multiples of patch={size}"
            raise wrong("images", f"of shape {tuple(images.shape)}", allowed)
        cut = images.reshape(batch, channels, rows // size, size, columns // size, size)
        patches_BYXCyx = cut.permute(0, 2, 4, 1, 3, 5)
        return self.project(patches_BYXCyx.flatten(3).flatten(1, 2))
