"""A user's own images: a folder for each class, or IDX files. Decoded once, then mapped from a cache."""

import hashlib
import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Self

import numpy as np
import PIL
import torch
from pydantic import Field, model_validator

from limelight.config import Config
from limelight.data.dataset import SPLITS
from limelight.data.download import cache_folder
from limelight.data.images.decode import SUFFIXES, Decoding, Pixels, Progress
from limelight.data.images.idx import find_idx, read_idx
from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.data.paths import check_regular
from limelight.data.splits import FILE_NAMES, check_shares, missing_shares
from limelight.data.text.delimited import MOST_NAMED, short
from limelight.errors import WrongInput

DEEPEST = 20  # folders in folders: beyond them a link leads back
VERSION = 1  # of what is cached: another one when the same file gives other pixels
UNFINISHED, DAY = ".tmp-", 86_400.0
NOTHING = "no image is here that can be read"
SKIP = "mend it, or skip such files: --set task.data.broken=skip"

Loaded = tuple[dict[str, Images], tuple[str, ...], list[str]]  # splits, names of the classes, notes


class ImageFiles(Config):
    """A folder that has a folder of images for each class, or one with IDX files such as those of MNIST.

    Shares of the images are held out. Or the folder has train, dev (valid, val, validation) and test folders
    with the classes in them: then training is held out from only where there is no dev folder; without a
    test folder beside a dev folder there is no test split. IDX files have their own size and one channel.

    Decoded images are kept in $LIMELIGHT_CACHE, or else in the folder limelight of $XDG_CACHE_HOME or
    ~/.cache. What is there may be removed at any time.
    """

    kind: Literal["files"] = "files"
    path: str = ""
    size: int = Field(32, ge=1, le=1_024)  # pixels a side: an image is scaled to cover them, its centre kept
    color: bool = True
    broken: Literal["refuse", "skip"] = "refuse"  # what becomes of files that cannot be read
    validation: float = Field(0.1, gt=0, lt=1)
    test: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int, progress: Progress | None = None) -> ImageData:
        """Progress is told while images are decoded, not where the cache has them."""
        if not self.path:
            raise WrongInput("task.data.path is empty: give a folder with --data")
        path = Path(self.path)
        check_regular(path)
        if not os.path.isdir(path):
            reason = "it is a file; give its folder" if os.path.exists(path) else "No such file or directory"
            raise WrongInput(f"{path}: {reason}")
        try:
            idx = find_idx(path)
            splits, names, notes = _load_idx(idx) if idx else self._load_folder(path, progress)
        except OSError as error:  # a folder that cannot be listed
            raise WrongInput(f"{error.filename or path}: {error.strerror or error}") from None
        try:
            shares = missing_shares(splits, self.validation, self.test)
            return ImageData(hold_out_images(splits, shares, seed), names, tuple(notes))
        except WrongInput as error:
            raise WrongInput(f"{path}: {error}") from None

    def _load_folder(self, path: Path, progress: Progress | None) -> Loaded:
        found = _find_images(path)
        paths = [image.path for image in found.images]
        shape = (3 if self.color else 1, self.size, self.size)
        decoding = Decoding(paths, shape, SKIP if self.broken == "refuse" else None, progress)
        pixels, notes = _decode_once(decoding, path)
        kept = [image for number, image in enumerate(found.images) if number not in pixels.broken]
        labels = torch.tensor([image.label for image in kept], dtype=torch.int64)
        splits, begin = dict[str, Images](), 0
        for split, folder in found.folders.items():
            end = begin + sum(image.split == split for image in kept)
            if begin == end:
                raise WrongInput(f"{folder}: {NOTHING}")
            splits[split] = Images(pixels.values[begin:end], labels[begin:end])
            begin = end
        missing = {*range(len(found.names))} - {*splits["train"].labels.tolist()}
        if missing:
            raise WrongInput(f"{found.folders['train'] / found.names[min(missing)]}: {NOTHING}")
        return splits, found.names, [*_count(found, pixels, splits), *notes]


def _load_idx(folder: Path) -> Loaded:
    splits, names = read_idx(folder)
    rows, columns = splits["train"].pixels.shape[2:]
    notes = [f"{name}: {len(images):,} images of {rows} × {columns}" for name, images in splits.items()]
    return splits, names, notes


class ImageFile(NamedTuple):
    path: Path
    split: str
    label: int


@dataclass(frozen=True)
class Found:
    names: tuple[str, ...]  # of the classes
    folders: dict[str, Path]  # split -> folder of its classes, in the order of the splits
    images: list[ImageFile]  # in the order of the splits, of the classes, of the names
    others: dict[str, Counter[str]]  # split -> what other files are -> how many
    unused: list[str]  # names of folders


def _find_images(path: Path) -> Found:
    folders, unused = _find_splits(path)
    names = tuple(folder.name for folder in _folders(folders["train"]))
    if len(names) < 2:
        there = f"only {short(names[0])} is there" if names else "none is there"
        raise WrongInput(f"{folders['train']}: a folder of images for each of two classes is needed; {there}")
    found = Found(names, folders, [], {split: Counter() for split in folders}, unused)
    for split, folder in folders.items():
        found.others[split]["in no class"] = sum(not os.path.isdir(entry) for entry in _visible(folder))
        for place in _folders(folder):
            if not place.name.isprintable():
                raise WrongInput(f"{folder}: the name {short(place.name)} cannot be printed; rename it")
            if place.name not in names:
                raise WrongInput(
                    f"{place}: training has no such class; there are: {', '.join(names[:MOST_NAMED])}"
                )
            files = list(_walk(place))
            images = [file for file in files if file.suffix.lower() in SUFFIXES]
            if split == "train" and not images:
                raise WrongInput(f"{place}: {NOTHING}")
            found.others[split]["without the suffix of an image"] += len(files) - len(images)
            label = names.index(place.name)
            found.images.extend(ImageFile(file, split, label) for file in images)
    return found


def _find_splits(path: Path) -> tuple[dict[str, Path], list[str]]:
    """Split -> the folder of its classes; and the names of folders beside them."""
    folders = _folders(path)
    found: dict[str, Path] = {}
    for split in SPLITS:
        named = [folder for folder in folders if folder.name.lower() in FILE_NAMES[split]]
        there = [folder for folder in named if _folders(folder)]  # a class may be called train, too
        if len(there) > 1:
            raise WrongInput(f"{path}: both {there[0].name} and {there[1].name} are there; one is enough")
        if there:
            found[split] = there[0]
    if not found:
        return {"train": path}, []
    if "train" not in found:
        name = next(iter(found.values())).name
        raise WrongInput(f"{path}: beside {name} there must be a train folder, with a folder for each class")
    return found, [folder.name for folder in folders if folder not in found.values()]


def _visible(folder: Path) -> list[Path]:
    """In the order of their names; what systems put beside data is left out."""
    names = sorted(os.listdir(folder))
    return [folder / name for name in names if not name.startswith(".") and name != "__MACOSX"]


def _folders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if os.path.isdir(path)]


def _walk(folder: Path, depth: int = 0) -> Iterator[Path]:
    if depth > DEEPEST:
        raise WrongInput(f"{folder}: it is more than {DEEPEST} folders deep; does a link lead back?")
    for path in _visible(folder):
        if os.path.isdir(path):
            yield from _walk(path, depth + 1)
        else:
            yield path


def _count(found: Found, pixels: Pixels, splits: dict[str, Images]) -> Iterator[str]:
    """Notes that say of each file whether it is kept, and of each broken one why not."""
    broken = Counter(found.images[number].split for number in pixels.broken)
    for split, folder in found.folders.items():
        dropped = found.others[split] + Counter(broken=broken[split])  # those of which there are any
        why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))
        counts = f"{len(splits[split]):,} images kept, {dropped.total():,} files dropped"
        note = f"{folder.name or folder}: {counts}"
        yield f"{note} ({why})" if why else note
    yield from (f"skipped: {reason}" for reason in list(pixels.broken.values())[:MOST_NAMED])
    if len(pixels.broken) > MOST_NAMED:
        yield f"skipped: {len(pixels.broken) - MOST_NAMED:,} more"
    if found.unused:
        yield f"folders that are not used: {', '.join(map(short, found.unused[:MOST_NAMED]))}"


def _decode_once(decoding: Decoding, root: Path) -> tuple[Pixels, list[str]]:
    """The pixels, and a note where they cannot be kept for the next time."""
    place = cache_folder() / _key(decoding, root)
    found, reason = _open_cached(place, decoding), "what was written there cannot be read"
    try:
        if found is None:
            _write_cached(place, decoding)
            found = _open_cached(place, decoding)
    except OSError as error:
        reason = error.strerror or str(error)
    if found is not None:
        return found, []
    return decoding.gather(), [f"no cache: {place.parent}: {reason}; images are decoded anew each time"]


def _key(decoding: Decoding, root: Path) -> str:
    """Changes when any file does, or what is made of it, or by what."""
    whole = hashlib.sha256(repr((VERSION, PIL.__version__, decoding.shape)).encode())
    for path in decoding.paths:
        about: tuple[int, ...] = ()
        with suppress(OSError):
            status = os.stat(path)
            # An archive may give new contents an old date; the time of the change itself cannot be set.
            about = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        whole.update(repr((path.relative_to(root).parts, about)).encode())
    return whole.hexdigest()


class About(Config):
    """What stands beside cached pixels."""

    images: int = Field(ge=0)
    broken: tuple[int, ...]  # numbers of files
    sha256: str


def _open_cached(place: Path, decoding: Decoding) -> Pixels | None:
    """What is whole, and up to date: a broken file may be readable now."""
    pixels, count = place.with_suffix(".pixels"), len(decoding.paths)
    try:
        about = About.model_validate_json(place.with_suffix(".json").read_bytes())
        shape = (about.images, *decoding.shape)
        fits = about.images + len(about.broken) == count and {*about.broken} <= {*range(count)}
        if not fits or math.prod(shape) != os.path.getsize(pixels):
            return None
        # Writable, as tensors are; what is written to it would never reach the file.
        values = torch.from_numpy(np.memmap(pixels, np.uint8, "c", shape=shape))
    except (OSError, ValueError):
        return None
    if hashlib.sha256(values.numpy().data).hexdigest() != about.sha256:
        return None
    again = {number: decoding.one(decoding.paths[number]) for number in about.broken}
    broken = {number: one for number, one in again.items() if isinstance(one, str)}
    return Pixels(values, broken) if len(broken) == len(again) else None


def _write_cached(place: Path, decoding: Decoding) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    for left in place.parent.glob(f"{UNFINISHED}*"):  # by a process that was killed
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - DAY:
                left.unlink()
    whole, broken = hashlib.sha256(), list[int]()
    with _replacing(place.with_suffix(".pixels")) as file:
        for number, one in enumerate(decoding.all()):
            if isinstance(one, str):
                broken.append(number)
                continue
            content = one.numpy().tobytes()
            file.write(content)
            whole.update(content)
    images = len(decoding.paths) - len(broken)
    about = About(images=images, broken=tuple(broken), sha256=whole.hexdigest())
    with _replacing(place.with_suffix(".json")) as file:
        file.write(about.model_dump_json().encode())


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that is in its place when it is whole and on the disk, or never."""
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            unfinished.unlink()
