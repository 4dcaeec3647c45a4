"""The formats of masks: lengths, booleans, zeros and ones, or numbers that are added to the scores."""

from dataclasses import dataclass

import torch
from torch import Tensor

STYLES = {
    "bool+": "True = may attend",
    "bool-": "True = hidden",
    "float+": "1 = may attend",
    "float-": "1 = hidden",
    "additive": "0 = may attend, -inf = hidden",
}
INTEGERS = "int+"  # 1 = may attend, for code that computes with integers
# Layouts that can express more come first.
LAYOUTS = ("BTS", "B1TS", "B11S", "B1S", "BS", "TS", "1TS", "11TS")


@dataclass(frozen=True)
class MaskFormat:
    """How a mask argument expresses which keys each query may attend to."""

    style: str  # one of STYLES, or "lengths"
    layout: str  # one of LAYOUTS; "B" or "BT" for lengths

    def __str__(self) -> str:
        shape = f"({', '.join(self.layout)})" if len(self.layout) > 1 else f"({self.layout},)"
        style = "1 = may attend, integers" if self.style == INTEGERS else STYLES.get(self.style, "")
        return f"lengths {shape}" if self.style == "lengths" else f"{shape}, {style}"

    @property
    def true_hides(self) -> bool:
        """Whether True, or 1, hides a key."""
        return self.style in ("bool-", "float-")

    def can_express(self, allowed: Tensor) -> bool:
        """Whether this format can express the pattern `allowed`, (B, T, S)."""
        if self.style == "lengths":
            count = allowed.sum(-1, keepdim=True)
            is_prefix = torch.arange(allowed.shape[-1]) < count
            same = bool((count == count[:, :1]).all()) or self.layout == "BT"
            return same and bool((is_prefix == allowed).all())
        if "T" not in self.layout and not bool((allowed == allowed[:, :1]).all()):
            return False
        return "B" in self.layout or bool((allowed == allowed[:1]).all())

    def encode(self, allowed: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """(B, T, S) -> the mask in this format"""
        if self.style == "lengths":
            count = allowed.sum(-1)
            return count if self.layout == "BT" else count[:, 0]
        mask = {
            "BTS": allowed,
            "B1TS": allowed.unsqueeze(1),
            "B11S": allowed[:, :1].unsqueeze(1),
            "B1S": allowed[:, :1],
            "BS": allowed[:, 0],
            "TS": allowed[0],
            "1TS": allowed[:1],
            "11TS": allowed[:1].unsqueeze(1),
        }[self.layout]
        if self.style == "bool+":
            return mask
        if self.style == "bool-":
            return ~mask
        if self.style == INTEGERS:
            return mask.long()
        if self.style == "additive":
            return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
        return mask.to(dtype) if self.style == "float+" else (~mask).to(dtype)


def formats_for(role: str, name: str) -> list[MaskFormat]:
    """The formats that an argument of this name may have, the most likely first."""
    plain = name.lower()
    if role == "lengths":
        return [MaskFormat("lengths", "B"), MaskFormat("lengths", "BT"), *formats_for("mask", "mask")]
    if "key_padding" in plain:
        return [MaskFormat(style, layout) for layout in ("BS", "B11S", "B1S") for style in ("bool-", "bool+")]
    if "bias" in plain:
        return [MaskFormat("additive", layout) for layout in LAYOUTS]
    formats = [MaskFormat(style, layout) for layout in LAYOUTS for style in STYLES]
    formats += [MaskFormat(INTEGERS, layout) for layout in ("BS", "BTS")]
    return [*formats, MaskFormat("lengths", "B"), MaskFormat("lengths", "BT")]


def padding_pattern(batch: int, queries: int, keys: int, *, length: int | None = None) -> Tensor:
    """-> (B, T, S): True on the real keys of sequences of different lengths, or of one `length`

    The first sequence is not the longest.
    """
    lengths = torch.tensor([keys - (i + 1) % keys for i in range(batch)])
    if length is not None:
        lengths = torch.full((batch,), length)
    return (torch.arange(keys) < lengths[:, None, None]).expand(batch, queries, keys)


def causal_pattern(batch: int, queries: int, keys: int) -> Tensor:
    """-> (B, T, S): True on each position and the positions before it"""
    return torch.ones(queries, keys, dtype=torch.bool).tril().expand(batch, queries, keys)
