"""The data set of all image tasks: images of one size with their classes."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from limelight.data.batching import Batch
from limelight.data.dataset import SPLITS, Dataset
from limelight.data.splits import choose
from limelight.errors import WrongInput
from limelight.randomness import generator


@dataclass(frozen=True)
class Images:
    """One split: pixels (N, C, Y, X) of uint8, and class ids (N)."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> "Images":
        """The images with these indices."""
        return Images(self.pixels.index_select(0, index), self.labels.index_select(0, index))

    def choose(self, limit: int, seed: int) -> "Images":
        """At most `limit` random images, at least one of each class; 0: all."""
        return self.take(torch.tensor(choose(self.labels.tolist(), limit, seed))) if limit else self

    def batch(self, index: Tensor) -> Batch:
        """The images with these indices (B) as a batch."""
        taken = self.take(index)
        return Batch(taken.pixels, taken.labels, index)


@dataclass(frozen=True)
class ImageData(Dataset[Images]):
    """Images of one size, each with its class."""

    splits: dict[str, Images]
    names: tuple[str, ...]  # names of the classes, in the order of their ids
    notes: tuple[str, ...] = ()

    def lengths(self, split: str) -> Tensor:
        """-> (N), all equal: one per image"""
        return torch.ones(len(self.examples(split)), dtype=torch.long)

    @cached_property
    def digest(self) -> str:
        """A checksum of all images."""
        checksum = hashlib.sha256(repr(self.names).encode())
        for name, images in self.splits.items():
            checksum.update(f"{name} {tuple(images.pixels.shape)}".encode())
            checksum.update(images.pixels.contiguous().numpy().data)
            checksum.update(images.labels.contiguous().numpy().data)
        return checksum.hexdigest()


def hold_out_images(splits: dict[str, Images], shares: dict[str, float], seed: int) -> dict[str, Images]:
    """Hold out random shares of each class of the training split; at least one image per class is kept."""
    train = splits["train"]
    order = torch.randperm(len(train), generator=generator(seed, "images"))
    parts: dict[str, list[Tensor]] = {name: [] for name in ("train", *shares)}
    # In small classes a share is a fraction of an image: fractions add up, to at least one image in total.
    due = {name: max(0.0, 1 - share * len(train)) for name, share in shares.items()}
    for label in train.labels.unique().tolist():
        remaining = order[train.labels[order] == label]
        count = len(remaining)
        for name, share in shares.items():
            due[name] += share * count
            size = min(round(due[name]), len(remaining) - 1)
            parts[name].append(remaining[:size])
            remaining, due[name] = remaining[size:], due[name] - size
        parts["train"].append(remaining)
    found = dict(splits)
    for name, classes in parts.items():
        index = torch.cat(classes)
        if not len(index):
            raise WrongInput(f"too few images ({len(train)}): no image is left for the {name} split")
        found[name] = train.take(index.sort().values)
    return {name: found[name] for name in SPLITS if name in found}
