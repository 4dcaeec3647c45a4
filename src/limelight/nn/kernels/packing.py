"""The real tokens of a padded batch, and back, so that padding is not computed."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from limelight.errors import wrong
from limelight.nn.validation import check_mask


@dataclass(frozen=True)
class HeadRows:
    """How the rows of packed heads (N·H, K) map to the padded heads (B·H, T, K), and back."""

    heads: int
    spread: Tensor  # (B·H·T): for each padded row, the index of a packed row; padding repeats a real token
    gather: Tensor  # (N·H): for each packed row, the index of its padded row
    bias: Tensor  # (B·H, 1, T): -inf at padding, 0 elsewhere, to be added to scores


class Packing:
    """The positions of the real tokens of a batch, with padding on the left, on the right or in between.

    Linear layers, norms, feed-forward networks and the loss compute the (N, D) real tokens only; attention
    alone needs the padded (B, T, D).
    """

    def __init__(self, mask: Tensor) -> None:
        """`mask` is a padding mask (B, 1, T), True at real tokens, as `padding_mask` returns it."""
        if mask.dim() != 3 or mask.shape[1] != 1:
            raise wrong("mask", f"of shape {tuple(mask.shape)}", "(B, 1, T)")
        check_mask("mask", mask, tuple(mask.shape), "(B, 1, T)")
        self.mask = mask
        self.batch, _, self.length = mask.shape
        index_N = mask.flatten().nonzero().squeeze(1)
        self.tokens = len(index_N)
        self._index_N = None if self.tokens == mask.numel() else index_N
        # Whether all padding is on the right, so that no real token comes after it.
        self.trailing = not (mask[..., 1:] & ~mask[..., :-1]).any()
        self.has_empty_sequence = not mask.any(-1).all()
        self._heads: dict[int, HeadRows] = {}

    def take(self, padded: Tensor) -> Tensor:
        """(B, T, ...) -> (N, ...)

        The real tokens, in order.
        """
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
            zeros = tokens.new_zeros(self.batch * self.length, *tokens.shape[1:])
            tokens = zeros.index_copy(0, self._index_N, tokens)
        return tokens.reshape(self.batch, self.length, *tokens.shape[1:])

    def heads(self, heads: int) -> HeadRows:
        """The index tensors for `heads` heads, computed once and shared by all layers of a stack."""
        if heads not in self._heads:
            self._heads[heads] = self._head_rows(heads)
        return self._heads[heads]

    def _head_rows(self, heads: int) -> HeadRows:
        real_BT = self.mask.squeeze(1)
        # The index of each position's token among the packed ones. Padding repeats the first token of its own
        # sequence, so that a value that is not finite does not reach another sequence.
        last_BT = real_BT.flatten().cumsum(0).view_as(real_BT) - 1
        first_B1 = (last_BT[:, -1:] + 1 - real_BT.sum(1, keepdim=True)).clamp(max=max(0, self.tokens - 1))
        token_BT = torch.where(real_BT, last_BT, first_B1)
        head_H = torch.arange(heads, device=self.mask.device)
        spread_BHT = token_BT.unsqueeze(1) * heads + head_H.unsqueeze(1)
        rows_BHT = torch.arange(spread_BHT.numel(), device=self.mask.device).view_as(spread_BHT)
        gather_NH = self.take(rows_BHT.transpose(1, 2))
        bias_BT = torch.zeros_like(real_BT, dtype=torch.float32).masked_fill(~real_BT, -math.inf)
        bias_BH1T = bias_BT[:, None, None].expand(-1, heads, 1, -1)
        return HeadRows(heads, spread_BHT.flatten(), gather_NH.flatten(), bias_BH1T.flatten(0, 1))


def hide_padding(
    mask: Tensor | None,
    size: int,
    packing: Packing | None,
    memory: Packing | None,
    *,
    causal: bool,
    watched: bool,
) -> Tensor | None:
    """(B|1, T|1, S) -> (B|1, T|1, S)

    The mask for attention to `size` keys when packed queries or a packed memory were padded again; None where
    every key may be attended to. Without a mask, the padding of the memory is hidden. If the weights are
    watched, those of padded queries become zero; otherwise nothing reads them.
    """
    if mask is None and memory is not None:
        # Beside a causal mask, padding on the right needs no mask: it comes after every real token.
        if causal and packing is memory and memory.trailing and not watched:
            return None
        mask = memory.mask
    if packing is None or not watched:
        return mask
    real_BT1 = packing.mask.transpose(1, 2)
    return real_BT1.expand(-1, -1, size) if mask is None else mask & real_BT1
