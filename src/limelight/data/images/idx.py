"""IDX files, as MNIST and Fashion-MNIST come in them: bytes after a header that is not believed."""

import gzip
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from limelight.data.images.image_data import Images
from limelight.data.text.text_files import DAMAGE, PIECE
from limelight.errors import WrongInput

PREFIXES = {"train": "train", "test": "t10k"}
AXES = {"images": 3, "labels": 1}
UBYTE = 0x08  # the third byte of a file says of what type its numbers are, the fourth how many axes it has
GZIP = b"\x1f\x8b"
MOST_BYTES = 2**30  # unpacked: MNIST has 47 million, the largest of its kin 550 million
FREE_BYTES = 2**24  # so few may be packed however tightly
TIGHTEST = 200  # times: digits are packed 5 times, clothes 2 times; a trap up to 1,000 times
# Fashion-MNIST says nowhere what its classes are called; its first labels tell that it is the one.
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
CLOTHES_BEGIN = (9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9, 5, 5, 7, 9, 1, 0, 6, 4, 3, 1, 4, 8, 4)


def find_idx(path: Path) -> Path | None:
    """The folder of IDX files that is `path` or stands below it, as in FashionMNIST/raw."""
    below = (
        sorted(folder for folder in path.iterdir() if os.path.isdir(folder)) if os.path.isdir(path) else []
    )
    places = [[path], [path / "raw"], below, [folder / "raw" for folder in below]]
    for folders in places:
        found = [
            folder for folder in folders if any(_find_file(folder, split, "images") for split in PREFIXES)
        ]
        if len(found) > 1:
            names = " and ".join(str(folder.relative_to(path)) for folder in found[:2])
            raise WrongInput(f"{path}: both {names} have IDX files; give one of them")
        if found:
            return found[0]
    return None


def read_idx(folder: Path) -> tuple[dict[str, Images], tuple[str, ...]]:
    """Train and, if it is there, test as (N, 1, Y, X) of uint8; and the names of the classes."""
    train = _read_split(folder, "train")
    if train is None:
        raise WrongInput(f"{folder}: train-images-idx3-ubyte or its .gz is missing")
    splits = {"train": train}
    test = _read_split(folder, "test")
    if test is not None:
        splits["test"] = test
        sizes = [" × ".join(map(str, images.pixels.shape[2:])) for images in (train, test)]
        if sizes[0] != sizes[1]:
            raise WrongInput(f"{folder}: images of training are {sizes[0]}, those of the test {sizes[1]}")
    return splits, _name_classes(folder, splits)


def _read_split(folder: Path, split: str) -> Images | None:
    paths = {what: _find_file(folder, split, what) for what in AXES}
    there = {what: path for what, path in paths.items() if path is not None}
    if not there:
        return None
    for what, axes in AXES.items():
        if what not in there:
            raise WrongInput(f"{folder}: {PREFIXES[split]}-{what}-idx{axes}-ubyte or its .gz is missing")
    pixels_NYX, labels = (_read_array(there[what], axes) for what, axes in AXES.items())
    if len(pixels_NYX) != len(labels):
        counts = f"{len(labels):,} labels are for {len(pixels_NYX):,} images of {there['images'].name}"
        raise WrongInput(f"{there['labels']}: {counts}; there must be as many")
    return Images(pixels_NYX.unsqueeze(1), labels.long())


def _find_file(folder: Path, split: str, what: str) -> Path | None:
    """Plain before packed: who unpacks often keeps both."""
    stem, kind = f"{PREFIXES[split]}-{what}", f"idx{AXES[what]}-ubyte"
    names = [f"{stem}{mark}{kind}{packed}" for packed in ("", ".gz") for mark in ("-", ".")]
    return next((folder / name for name in names if os.path.isfile(folder / name)), None)


def _read_array(path: Path, axes: int) -> Tensor:
    try:
        with path.open("rb") as plain:
            # By its first bytes: browsers unpack a .gz and leave it its name.
            packed = plain.read(len(GZIP)) == GZIP
            plain.seek(0)
            file: IO[bytes] = gzip.GzipFile(fileobj=plain) if packed else plain  # type: ignore[assignment]
            shape = _read_header(file.read(4 + 4 * axes), axes, path)
            most = max(FREE_BYTES, TIGHTEST * os.fstat(plain.fileno()).st_size)
            if packed and math.prod(shape) > most:
                raise WrongInput(f"{path}: it would unpack to more than {TIGHTEST} times its size")
            return _gather(file.read, math.prod(shape), path).view(shape)
    except WrongInput:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.strerror:
            raise WrongInput(f"{path}: {error.strerror}") from None
        reason = str(error) or "it ends too early"
        raise WrongInput(f"{path}: the file is damaged: {reason}; fetch it again") from None


def _read_header(header: bytes, axes: int, path: Path) -> tuple[int, ...]:
    magic = bytes((0, 0, UBYTE, axes))
    if header[:4] != magic:
        begins = f"begins with {header[:4].hex(' ')}" if header else "is empty"
        kind = f"an IDX file of bytes along {axes} {'axis' if axes == 1 else 'axes'}"
        raise WrongInput(f"{path}: the file {begins}; {kind} begins with {magic.hex(' ')}")
    if len(header) < 4 + 4 * axes:
        raise WrongInput(f"{path}: the file ends inside its header")
    shape = tuple(int.from_bytes(header[at : at + 4], "big") for at in range(4, len(header), 4))
    says = " × ".join(f"{size:,}" for size in shape)
    if not math.prod(shape):
        raise WrongInput(f"{path}: the header says {says} bytes: nothing is there")
    if math.prod(shape) > MOST_BYTES:
        raise WrongInput(f"{path}: the header says {says} bytes, more than {MOST_BYTES:,}")
    return shape


def _gather(read: Callable[[int], bytes], size: int, path: Path) -> Tensor:
    """The bytes that there are: memory grows with them, not with what the header says."""
    content = bytearray()
    while len(content) <= size and (piece := read(min(PIECE, size + 1 - len(content)))):
        content += piece
    if len(content) != size:
        there = f"{len(content):,} are there" if len(content) < size else "more are there"
        raise WrongInput(f"{path}: the header says {size:,} bytes follow, {there}; fetch it again")
    return torch.frombuffer(content, dtype=torch.uint8)


def _name_classes(folder: Path, splits: dict[str, Images]) -> tuple[str, ...]:
    """By their numbers, unless they are known to be clothes."""
    labels = splits["train"].labels
    count = int(labels.max()) + 1
    if count < 2:
        raise WrongInput(f"{_find_file(folder, 'train', 'labels')}: every label is 0; two must differ")
    for split, images in splits.items():
        largest = int(images.labels.max())
        missing = labels.bincount(minlength=largest + 1).eq(0).nonzero()
        if len(missing):
            reason = f"labels go up to {largest}, but no image of training has label {int(missing[0])}"
            raise WrongInput(f"{_find_file(folder, split, 'labels')}: {reason}")
    clothes = count == len(CLOTHES) and tuple(labels[: len(CLOTHES_BEGIN)].tolist()) == CLOTHES_BEGIN
    return CLOTHES if clothes else tuple(map(str, range(count)))
