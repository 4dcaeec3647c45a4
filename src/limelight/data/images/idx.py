"""Read IDX files, the format of MNIST and Fashion-MNIST. Headers are not trusted."""

import gzip
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from limelight.data.images.image_data import Images
from limelight.data.text.text_files import CHUNK, DAMAGED
from limelight.errors import WrongInput

PREFIXES = {"train": "train", "test": "t10k"}
AXES = {"images": 3, "labels": 1}
UBYTE = 0x08  # third byte of a file: the data type; the fourth is the number of axes
GZIP = b"\x1f\x8b"
MOST_BYTES = 2**30  # uncompressed: MNIST has 47 million, the largest similar data set 550 million
FREE_BYTES = 2**24  # the limit on the compression ratio applies to larger files only
MOST_RATIO = 200  # compression ratio: 5 for MNIST, 2 for Fashion-MNIST, up to 1,000 for malicious files
# The files of Fashion-MNIST contain no class names: the data set is recognised by its first labels.
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
CLOTHES_FIRST_LABELS = (9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9, 5, 5, 7, 9, 1, 0, 6, 4, 3, 1, 4, 8, 4)


def find_idx(path: Path) -> Path | None:
    """The folder with IDX files: `path` or a folder below it, such as FashionMNIST/raw; None if not found."""
    subfolders = (
        sorted(folder for folder in path.iterdir() if os.path.isdir(folder)) if os.path.isdir(path) else []
    )
    candidates = [[path], [path / "raw"], subfolders, [folder / "raw" for folder in subfolders]]
    for folders in candidates:
        found = [
            folder for folder in folders if any(_find_file(folder, split, "images") for split in PREFIXES)
        ]
        if len(found) > 1:
            names = " and ".join(str(folder.relative_to(path)) for folder in found[:2])
            raise WrongInput(f"{path}: both {names} contain IDX files; pass one of them")
        if found:
            return found[0]
    return None


def read_idx(folder: Path) -> tuple[dict[str, Images], tuple[str, ...]]:
    """The train split, the test split if it exists, and the names of the classes."""
    train = _read_split(folder, "train")
    if train is None:
        raise WrongInput(f"{folder}: train-images-idx3-ubyte or its .gz is missing")
    splits = {"train": train}
    test = _read_split(folder, "test")
    if test is not None:
        splits["test"] = test
        sizes = [" × ".join(map(str, images.pixels.shape[2:])) for images in (train, test)]
        if sizes[0] != sizes[1]:
            raise WrongInput(f"{folder}: the training images are {sizes[0]}, the test images {sizes[1]}")
    return splits, _name_classes(folder, splits)


def _read_split(folder: Path, split: str) -> Images | None:
    paths = {what: _find_file(folder, split, what) for what in AXES}
    found = {what: path for what, path in paths.items() if path is not None}
    if not found:
        return None
    for what, axes in AXES.items():
        if what not in found:
            raise WrongInput(f"{folder}: {PREFIXES[split]}-{what}-idx{axes}-ubyte or its .gz is missing")
    pixels_NYX, labels = (_read_array(found[what], axes) for what, axes in AXES.items())
    if len(pixels_NYX) != len(labels):
        counts = f"{len(labels):,} labels for {len(pixels_NYX):,} images in {found['images'].name}"
        raise WrongInput(f"{found['labels']}: {counts}; the numbers must be equal")
    return Images(pixels_NYX.unsqueeze(1), labels.long())


def _find_file(folder: Path, split: str, what: str) -> Path | None:
    """The path of a file; uncompressed files are preferred."""
    stem, kind = f"{PREFIXES[split]}-{what}", f"idx{AXES[what]}-ubyte"
    names = [f"{stem}{separator}{kind}{suffix}" for suffix in ("", ".gz") for separator in ("-", ".")]
    return next((folder / name for name in names if os.path.isfile(folder / name)), None)


def _read_array(path: Path, axes: int) -> Tensor:
    try:
        with path.open("rb") as plain:
            # By its first bytes: browsers decompress a .gz without renaming it.
            compressed = plain.read(len(GZIP)) == GZIP
            plain.seek(0)
            file: IO[bytes] = gzip.GzipFile(fileobj=plain) if compressed else plain  # type: ignore[assignment]
            shape = _read_header(file.read(4 + 4 * axes), axes, path)
            most = max(FREE_BYTES, MOST_RATIO * os.fstat(plain.fileno()).st_size)
            if compressed and math.prod(shape) > most:
                raise WrongInput(
                    f"{path}: the uncompressed size is more than {MOST_RATIO} times the size of the file"
                )
            return _read_bytes(file.read, math.prod(shape), path).view(shape)
    except WrongInput:
        raise
    except DAMAGED as error:
        if isinstance(error, OSError) and error.strerror:
            raise WrongInput(f"{path}: {error.strerror}") from None
        reason = str(error) or "unexpected end of file"
        raise WrongInput(f"{path}: the file is damaged: {reason}; download it again") from None


def _read_header(header: bytes, axes: int, path: Path) -> tuple[int, ...]:
    magic = bytes((0, 0, UBYTE, axes))
    if header[:4] != magic:
        start = f"starts with {header[:4].hex(' ')}" if header else "is empty"
        kind = f"an IDX file of bytes with {axes} {'axis' if axes == 1 else 'axes'}"
        raise WrongInput(f"{path}: the file {start}; {kind} starts with {magic.hex(' ')}")
    if len(header) < 4 + 4 * axes:
        raise WrongInput(f"{path}: the file ends inside its header")
    shape = tuple(int.from_bytes(header[at : at + 4], "big") for at in range(4, len(header), 4))
    size = " × ".join(f"{size:,}" for size in shape)
    if not math.prod(shape):
        raise WrongInput(f"{path}: the size in the header is {size} bytes; allowed: at least 1")
    if math.prod(shape) > MOST_BYTES:
        raise WrongInput(f"{path}: the size in the header is {size} bytes; allowed: at most {MOST_BYTES:,}")
    return shape


def _read_bytes(read: Callable[[int], bytes], size: int, path: Path) -> Tensor:
    """Read `size` bytes in chunks, so that memory is used only for bytes that exist."""
    content = bytearray()
    while len(content) <= size and (chunk := read(min(CHUNK, size + 1 - len(content)))):
        content += chunk
    if len(content) != size:
        found = f"{len(content):,} bytes" if len(content) < size else "more bytes"
        raise WrongInput(
            f"{path}: {found} follow the header, but its size is {size:,} bytes; download the file again"
        )
    return torch.frombuffer(content, dtype=torch.uint8)


def _name_classes(folder: Path, splits: dict[str, Images]) -> tuple[str, ...]:
    """The classes are named after their ids, except for those of Fashion-MNIST."""
    labels = splits["train"].labels
    count = int(labels.max()) + 1
    if count < 2:
        raise WrongInput(
            f"{_find_file(folder, 'train', 'labels')}: all labels are 0; "
            "at least two different labels are needed"
        )
    for split, images in splits.items():
        largest = int(images.labels.max())
        missing = labels.bincount(minlength=largest + 1).eq(0).nonzero()
        if len(missing):
            reason = f"the largest label is {largest}, but no training image has label {int(missing[0])}"
            raise WrongInput(f"{_find_file(folder, split, 'labels')}: {reason}")
    clothes = (
        count == len(CLOTHES) and tuple(labels[: len(CLOTHES_FIRST_LABELS)].tolist()) == CLOTHES_FIRST_LABELS
    )
    return CLOTHES if clothes else tuple(map(str, range(count)))
