"""The real tokens of a padded batch, and back: what is padding need not be computed."""

from torch import Tensor

from limelight.errors import wrong
from limelight.nn.checks import check_mask


class Packing:
    """Where the real tokens of a batch stand, in any layout of padding: left, right or between.

    Linear layers, norms, feed-forward and the loss work on the (N, D) real tokens; attention alone
    needs the padded (B, T, D).
    """

    def __init__(self, mask: Tensor) -> None:
        """`mask` is (B, 1, T), True = real, as `padding_mask` makes it."""
        if mask.dim() != 3 or mask.shape[1] != 1:
            raise wrong("mask", f"of shape {tuple(mask.shape)}", "(B, 1, T)")
        check_mask("mask", mask, tuple(mask.shape), "(B, 1, T)")
        self.mask = mask
        self.batch, _, self.length = mask.shape
        index_N = mask.flatten().nonzero().squeeze(1)
        self.tokens = len(index_N)
        self._index_N = None if self.tokens == mask.numel() else index_N
        # Whether all padding stands on the right, so that no real token comes after it.
        self.trailing = not (mask[..., 1:] & ~mask[..., :-1]).any()

    def take(self, padded: Tensor) -> Tensor:
        """(B, T, ...) -> (N, ...)"""
        if padded.shape[:2] != (self.batch, self.length):
            allowed = f"({self.batch}, {self.length}, ...), as the mask"
            raise wrong("padded", f"of shape {tuple(padded.shape)}", allowed)
        tokens = padded.flatten(0, 1)
        return tokens if self._index_N is None else tokens.index_select(0, self._index_N)

    def pad(self, tokens: Tensor) -> Tensor:
        """(N, ...) -> (B, T, ...)

        Padding is filled with zeros.
        """
        if len(tokens) != self.tokens:
            raise wrong("tokens", f"{len(tokens)} tokens", f"the {self.tokens} real ones of the mask")
        if self._index_N is not None:
            blank = tokens.new_zeros(self.batch * self.length, *tokens.shape[1:])
            tokens = blank.index_copy(0, self._index_N, tokens)
        return tokens.reshape(self.batch, self.length, *tokens.shape[1:])
