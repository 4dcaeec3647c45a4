"""Images from a user's folder: a subfolder per class, or IDX files."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator

from limelight.data.dataset import SPLITS, DataConfig
from limelight.data.images.decode import COVER, SUFFIXES, DecodedImages, ImageDecoder, Scaling
from limelight.data.images.decoded_cache import decode_cached
from limelight.data.images.idx import find_idx, read_idx
from limelight.data.images.image_data import ImageData, Images, hold_out_images
from limelight.data.paths import check_regular
from limelight.data.splits import FILE_NAMES, check_shares, choose, missing_shares
from limelight.data.text.delimited import MOST_NAMED, short
from limelight.errors import WrongInput

MOST_NESTED = 20  # folders; deeper nesting is probably a link to a parent folder
NO_IMAGES = "the folder contains no readable image"
SKIP = "fix it, or skip such files: --set task.data.broken=skip"

Loaded = tuple[dict[str, Images], tuple[str, ...], list[str]]  # splits, names of the classes, notes


class ImageFiles(DataConfig):
    """A folder with one subfolder of images per class, or a folder with IDX files such as those of MNIST.

    Shares of the images are held out. Alternatively the folder contains train, dev (valid, val, validation)
    and test folders, each with the class folders. Then images are held out from training only if there is
    no dev folder; with a dev folder but without a test folder there is no test split. IDX files keep their
    size and have one channel.

    Decoded images are cached in $LIMELIGHT_CACHE, or in the folder limelight of $XDG_CACHE_HOME or ~/.cache.
    The cache may be deleted at any time.
    """

    kind: Literal["files"] = Field("files", description="images from a folder")
    path: str = Field("", description="a folder with one subfolder per class, or with IDX files")
    size: int = Field(
        32,
        ge=1,
        le=1_024,
        description="height and width in pixels",
    )
    scaling: Scaling = Field(COVER, description="how images of another size are scaled")
    color: bool = Field(True, description="three channels (RGB); otherwise one (greyscale)")
    broken: Literal["refuse", "skip"] = Field(
        "refuse", description="files that cannot be decoded: refuse reports an error, skip ignores them"
    )
    validation: float = Field(0.1, gt=0, lt=1, description="share of the images held out for validation")
    test: float = Field(
        0.1, ge=0, lt=1, description="share of the images held out for testing; 0: no test split"
    )

    @model_validator(mode="after")
    def _leaves_training_examples(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int) -> ImageData:
        """Read all images and hold out splits."""
        if not self.path:
            raise WrongInput("task.data.path is empty; pass a folder with --data")
        path = Path(self.path)
        splits, names, notes = self._read(path, seed)
        try:
            shares = missing_shares(splits, self.validation, self.test)
            return ImageData(hold_out_images(splits, shares, seed), names, tuple(notes))
        except WrongInput as error:
            raise WrongInput(f"{path}: {error}") from None

    def _read(self, path: Path, seed: int, least: int = 2) -> Loaded:
        check_regular(path)
        if not os.path.isdir(path):
            reason = (
                "not a folder; pass the folder that contains it"
                if os.path.exists(path)
                else "No such file or directory"
            )
            raise WrongInput(f"{path}: {reason}")
        try:
            idx = find_idx(path)
            splits, names, notes = _load_idx(idx) if idx else self._load_folder(path, seed, least)
        except OSError as error:  # a folder that cannot be read
            raise WrongInput(f"{error.filename or path}: {error.strerror or error}") from None
        return {name: images.choose(self.limit, seed) for name, images in splits.items()}, names, notes

    def load_other(self, path: Path, names: tuple[str, ...]) -> ImageData:
        """Other images than those of training, whose classes have these names; nothing is held out.

        A folder without train, dev and test folders is the split "new".
        """
        splits, found, notes = self.model_copy(update={"limit": 0})._read(path, 1, least=1)
        unknown_names = sorted(set(found) - set(names))
        if unknown_names:
            allowed = ", ".join(names[:MOST_NAMED])
            raise WrongInput(f"{path}: training has no class {short(unknown_names[0])}; there are: {allowed}")
        ids = torch.tensor([names.index(name) for name in found])
        relabelled = {name: Images(images.pixels, ids[images.labels]) for name, images in splits.items()}
        if len(relabelled) == 1:
            relabelled = {"new": relabelled["train"]}
        return ImageData(relabelled, names, tuple(notes))

    def _load_folder(self, path: Path, seed: int, least: int) -> Loaded:
        found = _find_images(path, least).choose(self.limit, seed)
        paths = [image.path for image in found.images]
        shape = (3 if self.color else 1, self.size, self.size)
        decoder = ImageDecoder(paths, shape, SKIP if self.broken == "refuse" else None, self.scaling)
        decoded, notes = decode_cached(decoder, path)
        kept = [image for index, image in enumerate(found.images) if index not in decoded.broken]
        labels = torch.tensor([image.label for image in kept], dtype=torch.int64)
        splits, start = dict[str, Images](), 0
        for split, folder in found.folders.items():
            end = start + sum(image.split == split for image in kept)
            if start == end:
                raise WrongInput(f"{folder}: {NO_IMAGES}")
            splits[split] = Images(decoded.pixels[start:end], labels[start:end])
            start = end
        missing = {*range(len(found.names))} - {*splits["train"].labels.tolist()}
        if missing:
            raise WrongInput(f"{found.folders['train'] / found.names[min(missing)]}: {NO_IMAGES}")
        return splits, found.names, [*_count_files(found, decoded, splits), *notes]


def _load_idx(folder: Path) -> Loaded:
    splits, names = read_idx(folder)
    rows, columns = splits["train"].pixels.shape[2:]
    notes = [f"{name}: {len(images):,} images of {rows} × {columns}" for name, images in splits.items()]
    return splits, names, notes


class ImageFile(NamedTuple):
    """An image file with its split and class id."""

    path: Path
    split: str
    label: int


@dataclass(frozen=True)
class FoundFiles:
    """All image files of a folder."""

    names: tuple[str, ...]  # of the classes
    folders: dict[str, Path]  # split -> folder that contains the class folders
    images: list[ImageFile]  # sorted by split, class and name
    others: dict[str, Counter[str]]  # split -> reason why a file is not used -> number of files
    unused: list[str]  # names of unused folders

    def choose(self, limit: int, seed: int) -> "FoundFiles":
        """At most `limit` random files of each split, at least one of each class; 0: all."""
        chosen = list[ImageFile]()
        for split in self.folders:
            images = [image for image in self.images if image.split == split]
            chosen += [images[i] for i in choose([image.label for image in images], limit, seed)]
        return replace(self, images=chosen)


def _find_images(path: Path, least: int) -> FoundFiles:
    """All images; there must be at least `least` classes."""
    folders, unused = _find_splits(path)
    names = tuple(folder.name for folder in _class_folders(folders["train"]))
    if len(names) < least:
        present = f"there is only {short(names[0])}" if names else "there is none"
        inside = names and len(_class_folders(folders["train"] / names[0])) > 1
        hint = f"; did you mean {folders['train'] / names[0]}?" if inside else ""
        raise WrongInput(f"{folders['train']}: at least two class folders are needed; {present}{hint}")
    unused += [folder.name for place in folders.values() for folder in _folders(place) if _has_runs(folder)]
    found = FoundFiles(names, folders, [], {split: Counter() for split in folders}, unused)
    for split, folder in folders.items():
        found.others[split]["outside class folders"] = sum(
            not os.path.isdir(entry) for entry in _visible(folder)
        )
        for place in _class_folders(folder):
            if not place.name.isprintable():
                raise WrongInput(
                    f"{folder}: the name {short(place.name)} contains unprintable characters; rename it"
                )
            if place.name not in names:
                raise WrongInput(
                    f"{place}: training has no such class; there are: {', '.join(names[:MOST_NAMED])}"
                )
            files = list(_walk(place))
            images = [file for file in files if file.suffix.lower() in SUFFIXES]
            if split == "train" and not images:
                raise WrongInput(f"{place}: {NO_IMAGES}")
            found.others[split]["without an image suffix"] += len(files) - len(images)
            label = names.index(place.name)
            found.images.extend(ImageFile(file, split, label) for file in images)
    return found


def _find_splits(path: Path) -> tuple[dict[str, Path], list[str]]:
    """The folder of each split, and the names of other folders."""
    folders = _folders(path)
    found: dict[str, Path] = {}
    for split in SPLITS:
        named = [folder for folder in folders if folder.name.lower() in FILE_NAMES[split]]
        candidates = [folder for folder in named if _folders(folder)]  # a class may also be named train
        if len(candidates) > 1:
            one, other = (folder.name for folder in candidates[:2])
            raise WrongInput(f"{path}: both {one} and {other} exist; keep one of them")
        if candidates:
            found[split] = candidates[0]
    if not found:
        return {"train": path}, []
    if "train" not in found:
        name = next(iter(found.values())).name
        raise WrongInput(f"{path}: there is a {name} folder but no train folder with class folders")
    return found, [folder.name for folder in folders if folder not in found.values()]


def _visible(folder: Path) -> list[Path]:
    """The entries of a folder sorted by name, without hidden and system files."""
    names = sorted(os.listdir(folder))
    return [folder / name for name in names if not name.startswith(".") and name != "__MACOSX"]


def _folders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if os.path.isdir(path)]


def _class_folders(folder: Path) -> list[Path]:
    return [path for path in _folders(folder) if not _has_runs(path)]


def _has_runs(folder: Path) -> bool:
    """Whether this is a run folder of training, or a folder that contains some."""
    return any(os.path.isfile(place / "experiment.toml") for place in (folder, *_folders(folder)))


def _walk(folder: Path, depth: int = 0) -> Iterator[Path]:
    if depth > MOST_NESTED:
        raise WrongInput(
            f"{folder}: more than {MOST_NESTED} nested folders; is there a link to a parent folder?"
        )
    for path in _visible(folder):
        if os.path.isdir(path):
            yield from _walk(path, depth + 1)
        else:
            yield path


def _count_files(found: FoundFiles, decoded: DecodedImages, splits: dict[str, Images]) -> Iterator[str]:
    """Notes with the numbers of kept and dropped files, and the reasons for broken files."""
    broken = Counter(found.images[index].split for index in decoded.broken)
    for split, folder in found.folders.items():
        dropped = found.others[split] + Counter(broken=broken[split])  # without zero counts
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))
        counts = f"{len(splits[split]):,} images kept, {dropped.total():,} files dropped"
        note = f"{folder.name or folder}: {counts}"
        yield f"{note} ({reasons})" if reasons else note
    yield from (f"skipped: {reason}" for reason in list(decoded.broken.values())[:MOST_NAMED])
    if len(decoded.broken) > MOST_NAMED:
        yield f"skipped: {len(decoded.broken) - MOST_NAMED:,} more"
    if found.unused:
        yield f"unused folders: {', '.join(map(short, found.unused[:MOST_NAMED]))}"
