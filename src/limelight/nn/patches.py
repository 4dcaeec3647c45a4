"""Images as sequences of patches."""

from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.validation import check_floating, check_size


class PatchEmbedding(nn.Module):
    """Cuts an image into square patches and projects each of them to a token (Dosovitskiy et al. 2021).

    The patches are ordered row by row, the pixels of a patch channel by channel: the projection equals a
    convolution with kernel size and stride `patch`.
    """

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.channels = check_size("channels", channels)
        self.patch = check_size("patch", patch)
        self.project = nn.Linear(channels * patch * patch, check_size("width", width))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, P, D)"""
        check_floating("images", images)
        size = self.patch
        fits = images.dim() == 4 and images.shape[1] == self.channels
        if not fits or images.shape[2] % size or images.shape[3] % size:
            allowed = f"(B, {self.channels}, Y, X), Y and X multiples of patch={size}"
            raise wrong("images", f"of shape {tuple(images.shape)}", allowed)
        batch, channels, rows, columns = images.shape
        cut_BCYyXx = images.reshape(batch, channels, rows // size, size, columns // size, size)
        patches_BYXCyx = cut_BCYyXx.permute(0, 2, 4, 1, 3, 5)
        return self.project(patches_BYXCyx.flatten(3).flatten(1, 2))
