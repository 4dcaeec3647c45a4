"""CIFAR-10: 60,000 photographs of 32×32 pixels in ten classes, in each form in which it is given away."""

import gzip
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from zipfile import ZipFile

import numpy as np
import torch
from pydantic import Field

from limelight.config import Config
from limelight.data.download import cache_folder, fetch
from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.data.images.safe_pickle import read_pickle
from limelight.data.paths import check_regular
from limelight.data.text.delimited import short
from limelight.data.text.text_files import DAMAGE, decode
from limelight.errors import WrongInput, wrong

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
URL_SIZE, URL_CHECKSUM = 170_052_171, "md5:c32a1d4ab5d03f1284b67883e8d87530"
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LONGEST_NAME = 50
PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS  # bytes: the label, then all red, all green, all blue
TRAINING = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = "test_batch"
META = {".bin": "batches.meta.txt", "": "batches.meta"}  # by the ending of the batches' names
BATCHES = {f"{name}{end}" for name in (*TRAINING, TEST) for end in META}
FILES = {*BATCHES, *META.values()}
ARRAYS = {
    "train": (("x_train", "y_train"), ("train_images", "train_labels"), ("train_x", "train_y")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels"), ("test_x", "test_y")),
}
MOST_BYTES = 250_000_000  # of all that is read; CIFAR-10 has 184,380,000
MOST_ENTRIES = 1_000  # of an archive; CIFAR-10 has 9
PIECE = 2**20
BLOCK = 512  # bytes: the files of a tar archive begin at multiples of them
FILE, LINKS = (b"0", b"\0", b"7"), (b"1", b"2")  # what a tar archive says of an entry
FORMS = "CIFAR-10 is read from a folder of its batches, their .tar.gz, .tgz or .tar, or an .npz"

Batch = tuple[Any, list[int]]  # an array of images (N, 3, 32, 32) and their labels


class Cifar10(Config):
    """CIFAR-10 from a folder of batches or their archive, in the binary or the Python form, or from an .npz.

    Without a path it is fetched once and kept. Fewer batches or images are read too, and notes tell it. A
    share of the training images is held out for validation; without a test batch there is no test split.
    """

    kind: Literal["cifar10"] = "cifar10"
    path: str = ""
    validation: float = Field(0.1, gt=0, lt=1)

    def load(self, seed: int) -> ImageData:
        path = Path(self.path)
        if not self.path:
            path = fetch(URL, cache_folder(), size=URL_SIZE, checksum=URL_CHECKSUM)
        found = _read(path)
        try:
            splits = hold_out_images(found.splits, {"validation": self.validation}, seed)
        except WrongInput as error:
            raise WrongInput(f"{path}: {error}") from None
        return replace(found, splits=splits)


def _read(path: Path) -> ImageData:
    check_regular(path)
    # Not Path.exists, which raises where a name is too long.
    if not os.path.exists(path):
        raise WrongInput(f"{path}: No such file or directory")
    try:
        if os.path.isdir(path):
            return _read_batches(*_read_folder(path))
        if path.suffix.lower() == ".npz":
            return _read_arrays(path)
        if path.name.lower().endswith((".tar.gz", ".tgz", ".tar")):
            return _read_batches(*_read_tar(path))
    except WrongInput:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.filename:  # it could not be opened
            raise WrongInput(f"{error.filename}: {error.strerror}") from None
        damage = f"the archive is damaged: {_reason(error)}"
        raise WrongInput(f"{path}: {damage}; fetch it or pack it again") from None
    raise WrongInput(f"{path}: {FORMS}")


def _reason(error: Exception) -> str:
    """In one short line: some show all that they have read."""
    return " ".join(str(error).split())[:100] or "it ends too early"


def _read_folder(path: Path) -> tuple[str, dict[str, bytes]]:
    """Of the folder, or of the one in it that has batches: where it is, and its files by name."""
    folders = [path]
    if not any(os.path.isfile(path / name) for name in BATCHES):
        folders = [path / name for name in sorted(os.listdir(path)) if os.path.isdir(path / name)]
    there = {str(folder): [name for name in FILES if os.path.isfile(folder / name)] for folder in folders}
    place = _only_folder(there, path)
    files = [Path(place, name) for name in there[place]]
    _check_size(path, sum(file.stat().st_size for file in files))
    return place, {file.name: file.read_bytes() for file in files}


def _read_tar(path: Path) -> tuple[str, dict[str, bytes]]:
    """Nothing is written to the disk, whatever paths and links an archive names."""
    there: dict[str, dict[str, bytes]] = {}
    with path.open("rb") if path.suffix.lower() == ".tar" else gzip.open(path) as file:
        for name, kind, content in _tar_entries(file.read, path):
            folder, last = str(name.parent), name.name
            if name.is_absolute() or ".." in name.parts:
                raise WrongInput(f"{path}: {short(str(name))} leads out of the archive; {FORMS}")
            if last not in FILES or kind not in (*FILE, *LINKS):
                continue
            if kind in LINKS:
                raise WrongInput(f"{path}/{last}: it is a link, and no file")
            if last in there.setdefault(folder, {}):
                raise WrongInput(f"{path}/{last}: it is inside twice")
            there[folder][last] = content
    return str(path), there[_only_folder(there, path)]


def _tar_entries(read: Callable[[int], bytes], path: Path) -> Iterator[tuple[PurePosixPath, bytes, bytes]]:
    """Name, kind and content of each.

    Python's tarfile understands far more, such as sparse files and headers in many dialects, and has been
    hung by some. Plain names and sizes are all that these archives have.
    """
    total = count = 0
    while any(header := _read_exactly(read, BLOCK)):
        sizes, sums = (header[begin:end].strip(b" \0") for begin, end in ((124, 136), (148, 156)))
        if not re.fullmatch(rb"[0-7]+ [0-7]+", sizes + b" " + sums):
            raise ValueError("a header is no tar header")
        if int(sums, 8) != sum(header[:148]) + sum(header[156:]) + 8 * ord(" "):
            raise ValueError("the checksum of a header is wrong")
        size = int(sizes, 8)
        total, count = total + BLOCK + size, count + 1
        _check_size(path, total, count)
        prefix = header[345:500] if header[257:263] == b"ustar\0" else b""
        name = b"/".join(part.split(b"\0")[0] for part in (prefix, header[:100]) if part[:1] > b"\0")
        content = _read_exactly(read, -(-size // BLOCK) * BLOCK)
        yield PurePosixPath(name.decode("utf-8", "replace")), header[156:157], content[:size]
    # To the end, where the checksum of what was packed stands.
    while piece := read(PIECE):
        total += len(piece)
        _check_size(path, total)


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    pieces = []
    while size and (piece := read(min(size, PIECE))):
        pieces.append(piece)
        size -= len(piece)
    if size:
        raise EOFError
    return b"".join(pieces)


def _check_size(path: Path, size: int, entries: int = 1) -> None:
    if size > MOST_BYTES or entries > MOST_ENTRIES:
        most = f"{MOST_BYTES:,} bytes" if size > MOST_BYTES else f"{MOST_ENTRIES:,} files"
        raise WrongInput(f"{path}: more than {most} are inside, and CIFAR-10 has fewer; {FORMS}")


def _only_folder(there: dict[str, Any], path: Path) -> str:
    folders = [folder for folder, names in there.items() if BATCHES & set(names)]
    if not folders:
        raise WrongInput(f"{path}: no data_batch_1.bin and no data_batch_1 is inside; {FORMS}")
    if len(folders) > 1:
        one, other = (PurePosixPath(folder).name for folder in folders[:2])
        raise WrongInput(f"{path}: both {short(one)} and {short(other)} have batches; one is enough")
    return folders[0]


def _read_batches(place: str, files: dict[str, bytes]) -> ImageData:
    forms = [end for end in META if any(f"{name}{end}" in files for name in (*TRAINING, TEST))]
    if len(forms) > 1:
        raise WrongInput(f"{place}: both the binary and the Python form are inside; one is enough")
    end = forms[0]
    training = [f"{name}{end}" for name in TRAINING if f"{name}{end}" in files]
    for name in TRAINING[: max(1, len(training))]:
        if f"{name}{end}" not in training:
            raise WrongInput(f"{place}/{name}{end}: it is missing, though others are there")
    test = [f"{TEST}{end}"] if f"{TEST}{end}" in files else []
    read = _decode_binary if end else _decode_pickled
    splits = {
        split: [read(files[name], f"{place}/{name}") for name in names]
        for split, names in (("train", training), ("test", test))
        if names
    }
    few = "" if len(training) == len(TRAINING) else f" ({len(training)} of {len(TRAINING)} batches)"
    several = f"{training[0]} to {training[-1]}" if len(training) > 1 else training[0]
    names = _decode_names(files[META[end]], f"{place}/{META[end]}") if META[end] in files else NAMES
    return _join(splits, {"train": f"{several}{few}", "test": f"{TEST}{end}"}, names)


def _join(splits: dict[str, list[Batch]], sources: dict[str, str], names: tuple[str, ...]) -> ImageData:
    joined = {}
    for split, batches in splits.items():
        labels = [label for _, part in batches for label in part]
        pixels = np.empty((len(labels), 3, 32, 32), np.uint8)
        np.concatenate([part for part, _ in batches], out=pixels)
        joined[split] = Images(torch.from_numpy(pixels), torch.tensor(labels))
    notes = [f"{sources[split]}: {len(images):,} images" for split, images in joined.items()]
    if "test" not in joined:
        notes.append("no test images are there, so there is no test split")
    return ImageData(joined, names, tuple(notes))


def _decode_binary(content: bytes, place: str) -> Batch:
    if len(content) % RECORD:
        size = f"{len(content):,} bytes are no multiple of {RECORD:,}"
        raise WrongInput(f"{place}: {size}, as images with labels are; the file is cut off or damaged")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return _check_batch(records[:, 1:], records[:, 0], place)


def _decode_pickled(content: bytes, place: str) -> Batch:
    found = _entries_of(content, place)
    return _check_batch(found.get("data"), found.get("labels"), place)


def _entries_of(content: bytes, place: str) -> dict[str, Any]:
    """By name: Python 2 wrote names as bytes."""
    found = read_pickle(content, place)
    if not isinstance(found, dict):
        raise WrongInput(f"{place}: the pickle has no dict, but {type(found).__name__}")
    return {key if isinstance(key, str) else key.decode("latin-1"): value for key, value in found.items()}


def _decode_names(content: bytes, place: str) -> tuple[str, ...]:
    names: Any
    if place.endswith(".txt"):
        names = [line.strip() for line in decode(content, place).split("\n") if line.strip()]
    else:
        names = _entries_of(content, place).get("label_names")
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise WrongInput(f"{place}: no list of label_names is there")
    found = [name if isinstance(name, str) else name.decode("latin-1") for name in names]
    for name in found:
        if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
            raise wrong(f"{place}: a name", short(name), f"1 to {LONGEST_NAME} printable characters")
    if len(found) != len(NAMES) or len(set(found)) != len(NAMES):
        count = f"{len(found):,} names are there, of which {len(set(found)):,} differ"
        raise WrongInput(f"{place}: {count}; allowed: {len(NAMES)}, all different")
    return tuple(found)


def _read_arrays(path: Path) -> ImageData:
    splits, sources = dict[str, list[Batch]](), dict[str, str]()
    with ZipFile(path) as archive:
        entries = {entry.filename.removesuffix(".npy").lower(): entry for entry in archive.infolist()}
        _check_size(path, sum(entry.file_size for entry in entries.values()))
        for split, known in ARRAYS.items():
            pair = next((pair for pair in known if set(pair) & set(entries)), known[0])
            if split == "test" and not set(pair) & set(entries):
                continue
            for name in pair:
                if name not in entries:
                    raise WrongInput(f"{path}/{name}: the array is missing; {FORMS}")
            images, labels = (_decode_array(archive.read(entries[name]), f"{path}/{name}") for name in pair)
            splits[split] = [_check_batch(images, labels, f"{path}/{pair[0]} and {pair[1]}")]
            sources[split] = pair[0]
    return _join(splits, sources, NAMES)


def _decode_array(content: bytes, place: str) -> Any:
    try:
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # numpy has very many, from its own to those of Python's parser
        raise WrongInput(f"{place}: it is no array of numbers: {_reason(error)}") from None


def _check_batch(images: Any, labels: Any, place: str) -> Batch:
    """Images as (N, 3072), (N, 3, 32, 32) or (N, 32, 32, 3) of uint8, labels as a list or an array."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        raise WrongInput(f"{place}: the images are no array of uint8")
    if images.shape[1:] == (32, 32, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.shape[1:] not in ((PIXELS,), (3, 32, 32)):
        shapes = "(N, 3072), (N, 3, 32, 32) or (N, 32, 32, 3)"
        raise wrong(f"{place}: the shape of the images", images.shape, shapes)
    if isinstance(labels, np.ndarray) and labels.shape in ((len(images),), (len(images), 1)):  # as Keras does
        labels = labels.reshape(-1).tolist()
    if not isinstance(labels, list) or len(labels) != len(images):
        raise WrongInput(f"{place}: {len(images):,} images need as many labels in a list or an array")
    if not labels:
        raise WrongInput(f"{place}: no image is inside")
    for number, label in enumerate(labels, 1):
        if type(label) is not int or not 0 <= label < len(NAMES):
            shown = label if type(label) is int and abs(label) < 10**9 else type(label).__name__
            raise wrong(f"{place}: the label of record {number:,}", shown, "0 to 9")
    return images.reshape(-1, 3, 32, 32), labels
