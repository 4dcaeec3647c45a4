"""The real tokens of a padded batch, and back: what is padding need not be computed."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from limelight.errors import wrong
from limelight.nn.validation import check_mask


@dataclass(frozen=True)
class HeadRows:
    """Where the heads of packed tokens, (N·H, K), stand in what attention multiplies, (B·H, T, K)."""

    spread: Tensor  # (B·H·T): the row of packed heads that comes here; padding repeats a real one
    gather: Tensor  # (N·H): the row that each packed head went to
    hidden: Tensor  # (B·H, 1, T): -inf at padding, to be added to scores


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
        self.some_empty = not mask.any(-1).all()
        self._heads: dict[int, HeadRows] = {}

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

    def heads(self, heads: int) -> HeadRows:
        """Computed once: every layer of a stack asks for the same."""
        if heads not in self._heads:
            self._heads[heads] = self._head_rows(heads)
        return self._heads[heads]

    def _head_rows(self, heads: int) -> HeadRows:
        real_BT = self.mask.squeeze(1)
        # Each position's token among the packed ones. Padding repeats the first of its own sequence, so
        # that a value that is not finite stays among its own.
        last_BT = real_BT.flatten().cumsum(0).view_as(real_BT) - 1
        first_B1 = (last_BT[:, -1:] + 1 - real_BT.sum(1, keepdim=True)).clamp(max=max(0, self.tokens - 1))
        token_BT = torch.where(real_BT, last_BT, first_B1)
        head_H = torch.arange(heads, device=self.mask.device)
        spread_BHT = token_BT.unsqueeze(1) * heads + head_H.unsqueeze(1)
        rows_BHT = torch.arange(spread_BHT.numel(), device=self.mask.device).view_as(spread_BHT)
        gather_NH = self.take(rows_BHT.transpose(1, 2))
        hidden_BT = torch.zeros_like(real_BT, dtype=torch.float32).masked_fill(~real_BT, -math.inf)
        hidden_BH1T = hidden_BT[:, None, None].expand(-1, heads, 1, -1)
        return HeadRows(spread_BHT.flatten(), gather_NH.flatten(), hidden_BH1T.flatten(0, 1))
