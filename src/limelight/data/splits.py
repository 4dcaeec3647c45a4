"""Training, validation and test: how their files are called, and how shares of training are held out."""

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import torch

T = TypeVar("T")

FILE_NAMES = {"train": ("train",), "validation": ("dev", "valid", "val", "validation"), "test": ("test",)}


def check_shares(validation: float, test: float) -> None:
    if validation + test >= 1:
        raise ValueError(f"validation + test is {validation + test:g}; allowed: less than 1")


def missing_shares(there: Collection[str], validation: float, test: float) -> dict[str, float]:
    """What is held out where these splits have files: with one for validation, nothing."""
    if "validation" in there:
        return {}
    return {"validation": validation} | ({"test": test} if test and "test" not in there else {})


def likeness(text: str) -> str:
    """The same for all texts that differ in case and white space alone."""
    return " ".join(text.lower().split())


def draw_groups(items: Iterable[T], text: Callable[[T], str], draw: torch.Generator) -> list[list[T]]:
    """In random order; those with one and the same text stay together."""
    same: dict[str, list[T]] = {}
    for item in items:
        same.setdefault(likeness(text(item)), []).append(item)
    groups = list(same.values())
    return [groups[i] for i in torch.randperm(len(groups), generator=draw).tolist()]


def hold_out(groups: list[list[T]], shares: dict[str, float]) -> dict[str, list[T]]:
    """Training, from the front of the line, and the shares of all groups, each cut off its end."""
    left, splits = groups, {}
    for name, share in shares.items():
        cut = max(0, len(left) - max(1, round(share * len(groups))))
        splits[name] = [item for group in left[cut:] for item in group]
        left = left[:cut]
    return {"train": [item for group in left for item in group], **splits}
