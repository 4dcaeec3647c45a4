"""Images of one size, each with its class: what every source of images gives."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from limelight.data.batching import Batch
from limelight.data.dataset import SPLITS
from limelight.errors import WrongInput
from limelight.randomness import generator


@dataclass(frozen=True)
class Images:
    """One split: (N, C, Y, X) of uint8, a byte a channel as in files, and the number of each class (N)."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> "Images":
        return Images(self.pixels.index_select(0, index), self.labels.index_select(0, index))

    def batch(self, index: Tensor) -> Batch:
        taken = self.take(index)
        return Batch(taken.pixels, taken.labels, index)


@dataclass(frozen=True)
class ImageData:
    splits: dict[str, Images]
    names: tuple[str, ...]  # of the classes
    notes: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Changes when any image does: a run goes on only with the data it began with."""
        whole = hashlib.sha256(repr(self.names).encode())
        for name, images in self.splits.items():
            whole.update(f"{name} {tuple(images.pixels.shape)}".encode())
            whole.update(images.pixels.contiguous().numpy().data)
            whole.update(images.labels.contiguous().numpy().data)
        return whole.hexdigest()


def hold_out_images(splits: dict[str, Images], shares: dict[str, float], seed: int) -> dict[str, Images]:
    """Of each class of training, random shares for the splits that are named; some of it stays."""
    train = splits["train"]
    order = torch.randperm(len(train), generator=generator(seed, "images"))
    parts: dict[str, list[Tensor]] = {name: [] for name in ("train", *shares)}
    # Of a class with a few images a share is less than one: it adds up, to one image at least.
    due = {name: max(0.0, 1 - share * len(train)) for name, share in shares.items()}
    for number in train.labels.unique().tolist():
        left = order[train.labels[order] == number]
        count = len(left)
        for name, share in shares.items():
            due[name] += share * count
            cut = min(round(due[name]), len(left) - 1)
            parts[name].append(left[:cut])
            left, due[name] = left[cut:], due[name] - cut
        parts["train"].append(left)
    found = dict(splits)
    for name, classes in parts.items():
        index = torch.cat(classes)
        if not len(index):
            raise WrongInput(f"{len(train)} images are too few: none is left for {name}")
        found[name] = train.take(index.sort().values)
    return {name: found[name] for name in SPLITS if name in found}
