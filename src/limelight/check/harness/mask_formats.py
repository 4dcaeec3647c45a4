"""The ways in which a mask can be said: lengths, truth values, zeros and ones, numbers to be added."""

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
# Those that can say most come first.
LAYOUTS = ("BTS", "B1TS", "B11S", "B1S", "BS", "TS", "1TS", "11TS")


@dataclass(frozen=True)
class Way:
    """How an argument says who may attend to whom."""

    style: str  # one of STYLES, or "lengths"
    layout: str  # one of LAYOUTS; of lengths "B" or "BT"

    def __str__(self) -> str:
        shape = f"({', '.join(self.layout)})" if len(self.layout) > 1 else f"({self.layout},)"
        return f"lengths {shape}" if self.style == "lengths" else f"{shape}, {STYLES[self.style]}"

    @property
    def hides_where_true(self) -> bool:
        return self.style in ("bool-", "float-")

    def can_say(self, allowed: Tensor) -> bool:
        """(B, T, S): whether this layout can tell it."""
        if self.style == "lengths":
            count = allowed.sum(-1, keepdim=True)
            beginning = torch.arange(allowed.shape[-1]) < count
            same = bool((count == count[:, :1]).all()) or self.layout == "BT"
            return same and bool((beginning == allowed).all())
        if "T" not in self.layout and not bool((allowed == allowed[:, :1]).all()):
            return False
        return "B" in self.layout or bool((allowed == allowed[:1]).all())

    def say(self, allowed: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """(B, T, S) -> what their code is given"""
        if self.style == "lengths":
            count = allowed.sum(-1)
            return count if self.layout == "BT" else count[:, 0]
        said = {
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
            return said
        if self.style == "bool-":
            return ~said
        if self.style == "additive":
            return torch.zeros(said.shape, dtype=dtype).masked_fill(~said, -torch.inf)
        return said.to(dtype) if self.style == "float+" else (~said).to(dtype)


def ways_for(role: str, name: str) -> list[Way]:
    """Which ways an argument of this name may understand, the likeliest first."""
    plain = name.lower()
    if role == "lengths":
        return [Way("lengths", "B"), Way("lengths", "BT"), *ways_for("mask", "mask")]
    if "key_padding" in plain:
        return [Way(style, layout) for layout in ("BS", "B11S", "B1S") for style in ("bool-", "bool+")]
    if "bias" in plain:
        return [Way("additive", layout) for layout in LAYOUTS]
    styles = ["bool+", "bool-", "float+", "float-", "additive"]
    ways = [Way(style, layout) for layout in LAYOUTS for style in styles]
    return [*ways, Way("lengths", "B"), Way("lengths", "BT")]


def padding(batch: int, queries: int, keys: int, *, even: int | None = None) -> Tensor:
    """-> (B, T, S), sequences of every length, the first not the longest; with `even`, all of that length"""
    lengths = torch.tensor([keys - (i + 1) % keys for i in range(batch)])
    if even is not None:
        lengths = torch.full((batch,), even)
    return (torch.arange(keys) < lengths[:, None, None]).expand(batch, queries, keys)


def past(batch: int, queries: int, keys: int) -> Tensor:
    """-> (B, T, S), each position and those before it"""
    return torch.ones(queries, keys, dtype=torch.bool).tril().expand(batch, queries, keys)
