"""CIFAR-10: 60,000 photographs of 32×32 pixels in ten classes, in each of its published formats."""

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

from limelight.data.dataset import DataConfig
from limelight.data.download import cache_folder, fetch
from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.data.images.safe_pickle import read_pickle
from limelight.data.paths import check_regular
from limelight.data.text.delimited import short
from limelight.data.text.text_files import CHUNK, DAMAGED, decode
from limelight.errors import WrongInput, wrong

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
URL_SIZE, URL_CHECKSUM = 170_052_171, "md5:c32a1d4ab5d03f1284b67883e8d87530"
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LONGEST_NAME = 50
PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS  # bytes: the label, then all red, all green and all blue values
TRAINING = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = "test_batch"
META = {".bin": "batches.meta.txt", "": "batches.meta"}  # by the suffix of the batches
BATCHES = {f"{name}{suffix}" for name in (*TRAINING, TEST) for suffix in META}
FILES = {*BATCHES, *META.values()}
ARRAYS = {
    "train": (("x_train", "y_train"), ("train_images", "train_labels"), ("train_x", "train_y")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels"), ("test_x", "test_y")),
}
MOST_BYTES = 250_000_000  # uncompressed; CIFAR-10 has 184,380,000
MOST_ENTRIES = 1_000  # files in an archive; CIFAR-10 has 9
BLOCK = 512  # bytes; the files of a tar archive start at multiples of it
FILE, LINKS = (b"0", b"\0", b"7"), (b"1", b"2")  # types of tar entries
FORMATS = "allowed: a folder of CIFAR-10 batches, a .tar.gz, .tgz or .tar of them, or an .npz file"

Batch = tuple[Any, list[int]]  # an array of images (N, 3, 32, 32) and their labels


class Cifar10(DataConfig):
    """CIFAR-10 from a folder or an archive of batches, in the binary or the Python format, or from an .npz.

    Without a path it is downloaded once and cached. A subset of the batches or images is accepted, and a
    note reports the numbers. Without a test batch there is no test split.
    """

    kind: Literal["cifar10"] = Field("cifar10", description="the CIFAR-10 data set")
    path: str = Field("", description="a folder of batches, their archive, or an .npz; empty: download it")
    validation: float = Field(
        0.1, gt=0, lt=1, description="share of the training images held out for validation"
    )

    def load(self, seed: int) -> ImageData:
        """Read or download the images and hold out a validation split."""
        path = Path(self.path)
        if not self.path:
            path = fetch(URL, cache_folder(), size=URL_SIZE, checksum=URL_CHECKSUM)
        found = _read(path)
        try:
            chosen = {name: images.choose(self.limit, seed) for name, images in found.splits.items()}
            splits = hold_out_images(chosen, {"validation": self.validation}, seed)
        except WrongInput as error:
            raise WrongInput(f"{path}: {error}") from None
        return replace(found, splits=splits)

    def load_other(self, path: Path) -> ImageData:
        """Other images than those of training, in the same formats; nothing is held out."""
        return _read(path)


def _read(path: Path) -> ImageData:
    check_regular(path)
    # Not Path.exists, which raises an error if a name is too long.
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
    except DAMAGED as error:
        if isinstance(error, OSError) and error.filename:  # the file cannot be opened
            raise WrongInput(f"{error.filename}: {error.strerror}") from None
        damage = f"the archive is damaged: {_reason(error)}"
        raise WrongInput(f"{path}: {damage}; download or create it again") from None
    raise WrongInput(f"{path}: the file type is not supported; {FORMATS}")


def _reason(error: Exception) -> str:
    """The message of an error as one short line: some messages quote the file."""
    return " ".join(str(error).split())[:100] or "unexpected end of file"


def _read_folder(path: Path) -> tuple[str, dict[str, bytes]]:
    """The folder that contains batches, `path` or a subfolder, and the contents of its files by name."""
    folders = [path]
    if not any(os.path.isfile(path / name) for name in BATCHES):
        folders = [path / name for name in sorted(os.listdir(path)) if os.path.isdir(path / name)]
    found = {str(folder): [name for name in FILES if os.path.isfile(folder / name)] for folder in folders}
    place = _only_folder(found, path)
    files = [Path(place, name) for name in found[place]]
    _check_size(path, sum(file.stat().st_size for file in files))
    return place, {file.name: file.read_bytes() for file in files}


def _read_tar(path: Path) -> tuple[str, dict[str, bytes]]:
    """The path of the archive, and the contents of its files by name. Nothing is written to disk."""
    found: dict[str, dict[str, bytes]] = {}
    with path.open("rb") if path.suffix.lower() == ".tar" else gzip.open(path) as file:
        for name, kind, content in _tar_entries(file.read, path):
            folder, last = str(name.parent), name.name
            if name.is_absolute() or ".." in name.parts:
                raise WrongInput(f"{path}: the path {short(str(name))} leads outside the archive; {FORMATS}")
            if last not in FILES or kind not in (*FILE, *LINKS):
                continue
            if kind in LINKS:
                raise WrongInput(f"{path}/{last}: a link instead of a file")
            if last in found.setdefault(folder, {}):
                raise WrongInput(f"{path}/{last}: the archive contains this file twice")
            found[folder][last] = content
    return str(path), found[_only_folder(found, path)]


def _tar_entries(read: Callable[[int], bytes], path: Path) -> Iterator[tuple[PurePosixPath, bytes, bytes]]:
    """The name, type and content of each entry.

    Python's tarfile supports far more, such as sparse files and many header formats, and malicious archives
    can make it hang. The archives of CIFAR-10 only have plain names and sizes.
    """
    total = count = 0
    while any(header := _read_exactly(read, BLOCK)):
        sizes, sums = (header[start:end].strip(b" \0") for start, end in ((124, 136), (148, 156)))
        if not re.fullmatch(rb"[0-7]+ [0-7]+", sizes + b" " + sums):
            raise ValueError("invalid tar header")
        if int(sums, 8) != sum(header[:148]) + sum(header[156:]) + 8 * ord(" "):
            raise ValueError("wrong checksum of a tar header")
        size = int(sizes, 8)
        total, count = total + BLOCK + size, count + 1
        _check_size(path, total, count)
        prefix = header[345:500] if header[257:263] == b"ustar\0" else b""
        name = b"/".join(part.split(b"\0")[0] for part in (prefix, header[:100]) if part[:1] > b"\0")
        content = _read_exactly(read, -(-size // BLOCK) * BLOCK)
        yield PurePosixPath(name.decode("utf-8", "replace")), header[156:157], content[:size]
    # Read to the end, so that gzip verifies its checksum.
    while chunk := read(CHUNK):
        total += len(chunk)
        _check_size(path, total)


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    chunks = []
    while size and (chunk := read(min(size, CHUNK))):
        chunks.append(chunk)
        size -= len(chunk)
    if size:
        raise EOFError
    return b"".join(chunks)


def _check_size(path: Path, size: int, entries: int = 1) -> None:
    if size > MOST_BYTES or entries > MOST_ENTRIES:
        most = f"{MOST_BYTES:,} bytes" if size > MOST_BYTES else f"{MOST_ENTRIES:,} files"
        raise WrongInput(f"{path}: there are more than {most}, and CIFAR-10 has fewer; {FORMATS}")


def _only_folder(found: dict[str, Any], path: Path) -> str:
    """The only folder that contains batches."""
    folders = [folder for folder, names in found.items() if BATCHES & set(names)]
    if not folders:
        raise WrongInput(f"{path}: there is no data_batch_1.bin or data_batch_1; {FORMATS}")
    if len(folders) > 1:
        one, other = (PurePosixPath(folder).name for folder in folders[:2])
        raise WrongInput(f"{path}: both {short(one)} and {short(other)} contain batches; keep one of them")
    return folders[0]


def _read_batches(place: str, files: dict[str, bytes]) -> ImageData:
    suffixes = [suffix for suffix in META if any(f"{name}{suffix}" in files for name in (*TRAINING, TEST))]
    if len(suffixes) > 1:
        raise WrongInput(
            f"{place}: there are batches in the binary and in the Python format; keep one of them"
        )
    suffix = suffixes[0]
    training = [f"{name}{suffix}" for name in TRAINING if f"{name}{suffix}" in files]
    for name in TRAINING[: max(1, len(training))]:
        if f"{name}{suffix}" not in training:
            raise WrongInput(f"{place}/{name}{suffix}: the file is missing, but other batches exist")
    test = [f"{TEST}{suffix}"] if f"{TEST}{suffix}" in files else []
    decode_batch = _decode_binary if suffix else _decode_pickled
    splits = {
        split: [decode_batch(files[name], f"{place}/{name}") for name in names]
        for split, names in (("train", training), ("test", test))
        if names
    }
    share = "" if len(training) == len(TRAINING) else f" ({len(training)} of {len(TRAINING)} batches)"
    batches = f"{training[0]} to {training[-1]}" if len(training) > 1 else training[0]
    meta = META[suffix]
    names = _decode_names(files[meta], f"{place}/{meta}") if meta in files else NAMES
    return _join(splits, {"train": f"{batches}{share}", "test": f"{TEST}{suffix}"}, names)


def _join(splits: dict[str, list[Batch]], sources: dict[str, str], names: tuple[str, ...]) -> ImageData:
    joined = {}
    for split, batches in splits.items():
        labels = [label for _, part in batches for label in part]
        pixels_NCYX = np.empty((len(labels), 3, 32, 32), np.uint8)
        np.concatenate([part for part, _ in batches], out=pixels_NCYX)
        joined[split] = Images(torch.from_numpy(pixels_NCYX), torch.tensor(labels))
    notes = [f"{sources[split]}: {len(images):,} images" for split, images in joined.items()]
    if "test" not in joined:
        notes.append("there are no test images, so there is no test split")
    return ImageData(joined, names, tuple(notes))


def _decode_binary(content: bytes, place: str) -> Batch:
    if len(content) % RECORD:
        size = f"the size is {len(content):,} bytes; allowed: multiples of {RECORD:,}"
        raise WrongInput(f"{place}: {size}; the file is truncated or damaged")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return _check_batch(records[:, 1:], records[:, 0], place)


def _decode_pickled(content: bytes, place: str) -> Batch:
    found = _read_dict(content, place)
    return _check_batch(found.get("data"), found.get("labels"), place)


def _read_dict(content: bytes, place: str) -> dict[str, Any]:
    """A pickled dict; keys that Python 2 wrote as bytes become strings."""
    found = read_pickle(content, place)
    if not isinstance(found, dict):
        raise WrongInput(f"{place}: the pickle contains {type(found).__name__}; allowed: dict")
    return {key if isinstance(key, str) else key.decode("latin-1"): value for key, value in found.items()}


def _decode_names(content: bytes, place: str) -> tuple[str, ...]:
    names: Any
    if place.endswith(".txt"):
        names = [line.strip() for line in decode(content, place).split("\n") if line.strip()]
    else:
        names = _read_dict(content, place).get("label_names")
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise WrongInput(f"{place}: there is no list label_names")
    found = [name if isinstance(name, str) else name.decode("latin-1") for name in names]
    for name in found:
        if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
            raise wrong(f"{place}: a name", short(name), f"1 to {LONGEST_NAME} printable characters")
    if len(found) != len(NAMES) or len(set(found)) != len(NAMES):
        count = f"there are {len(found):,} names, {len(set(found)):,} of them distinct"
        raise WrongInput(f"{place}: {count}; allowed: {len(NAMES)}, all distinct")
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
                    raise WrongInput(f"{path}/{name}: the array is missing; {FORMATS}")
            images, labels = (_decode_array(archive.read(entries[name]), f"{path}/{name}") for name in pair)
            splits[split] = [_check_batch(images, labels, f"{path}/{pair[0]} and {pair[1]}")]
            sources[split] = pair[0]
    return _join(splits, sources, NAMES)


def _decode_array(content: bytes, place: str) -> Any:
    try:
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # numpy raises many kinds of errors
        raise WrongInput(f"{place}: not an array of numbers: {_reason(error)}") from None


def _check_batch(images: Any, labels: Any, place: str) -> Batch:
    """Check and reshape images (N, 3072), (N, 3, 32, 32) or (N, 32, 32, 3) and their labels."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        raise WrongInput(f"{place}: the images are not an array of uint8")
    if images.shape[1:] == (32, 32, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.shape[1:] not in ((PIXELS,), (3, 32, 32)):
        shapes = "(N, 3072), (N, 3, 32, 32) or (N, 32, 32, 3)"
        raise wrong(f"{place}: the shape of the images", images.shape, shapes)
    if isinstance(labels, np.ndarray) and labels.shape in ((len(images),), (len(images), 1)):  # as in Keras
        labels = labels.reshape(-1).tolist()
    if not isinstance(labels, list) or len(labels) != len(images):
        raise WrongInput(f"{place}: a list or an array of {len(images):,} labels is needed, one per image")
    if not labels:
        raise WrongInput(f"{place}: there are no images")
    for number, label in enumerate(labels, 1):
        if type(label) is not int or not 0 <= label < len(NAMES):
            shown = label if type(label) is int and abs(label) < 10**9 else type(label).__name__
            raise wrong(f"{place}: the label of record {number:,}", shown, "0 to 9")
    return images.reshape(-1, 3, 32, 32), labels
