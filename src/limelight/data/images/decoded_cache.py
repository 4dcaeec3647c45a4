"""A cache of decoded images in a file: an image folder is decoded once."""

import hashlib
import math
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import PIL
import torch
from pydantic import Field

from limelight.config import Config
from limelight.data.download import cache_folder
from limelight.data.images.decode import COVER, DecodedImages, ImageDecoder

VERSION = 1  # to be increased when the same file is decoded to other pixels
TEMPORARY, DAY = ".tmp-", 86_400.0


def decode_cached(decoder: ImageDecoder, root: Path) -> tuple[DecodedImages, list[str]]:
    """The decoded images from the cache, if possible; otherwise with a note that they cannot be cached."""
    entry = cache_folder() / _key(decoder, root)
    found, reason = _read_cache(entry, decoder), "the cached file cannot be read"
    try:
        if found is None:
            _write_cache(entry, decoder)
            found = _read_cache(entry, decoder)
    except OSError as error:
        reason = error.strerror or str(error)
    if found is not None:
        return found, []
    return decoder.decode(), [f"no cache: {entry.parent}: {reason}; images are decoded again in each run"]


def _key(decoder: ImageDecoder, root: Path) -> str:
    """A checksum of the names, sizes and times of all files, of the shape and of the decoder's version."""
    how = (decoder.shape,) if decoder.scaling == COVER else (decoder.shape, decoder.scaling)
    key = hashlib.sha256(repr((VERSION, PIL.__version__, *how)).encode())
    for path in decoder.paths:
        about: tuple[int, ...] = ()
        with suppress(OSError):
            status = os.stat(path)
            # Unpacking an archive may set an old modification time; the change time cannot be set.
            about = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        key.update(repr((path.relative_to(root).parts, about)).encode())
    return key.hexdigest()


class CacheEntry(Config):
    """Description of a file of cached pixels."""

    images: int = Field(ge=0, description="number of images")
    broken: tuple[int, ...] = Field(description="indices of the files that could not be decoded")
    sha256: str = Field(description="checksum of the pixels")


def _read_cache(entry: Path, decoder: ImageDecoder) -> DecodedImages | None:
    """The cached images, or None if they are missing, damaged or outdated."""
    pixels, count = entry.with_suffix(".pixels"), len(decoder.paths)
    try:
        about = CacheEntry.model_validate_json(entry.with_suffix(".json").read_bytes())
        shape = (about.images, *decoder.shape)
        fits = about.images + len(about.broken) == count and {*about.broken} <= {*range(count)}
        if not fits or math.prod(shape) != os.path.getsize(pixels):
            return None
        # Copy-on-write: the tensor is writable, and the file never changes.
        pixels_NCYX = torch.from_numpy(np.memmap(pixels, np.uint8, "c", shape=shape))
    except (OSError, ValueError):
        return None
    if hashlib.sha256(pixels_NCYX.numpy().data).hexdigest() != about.sha256:
        return None
    # Broken files are decoded again, as they may be readable now.
    results = {index: decoder.decode_file(decoder.paths[index]) for index in about.broken}
    broken = {index: result for index, result in results.items() if isinstance(result, str)}
    return DecodedImages(pixels_NCYX, broken) if len(broken) == len(results) else None


def _write_cache(entry: Path, decoder: ImageDecoder) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    for temporary in entry.parent.glob(f"{TEMPORARY}*"):  # left by a process that was killed
        with suppress(OSError):
            if temporary.stat().st_mtime < time.time() - DAY:
                temporary.unlink()
    checksum, broken = hashlib.sha256(), list[int]()
    with _write_atomically(entry.with_suffix(".pixels")) as file:
        for index, result in enumerate(decoder.decode_files()):
            if isinstance(result, str):
                broken.append(index)
                continue
            content = result.numpy().tobytes()
            file.write(content)
            checksum.update(content)
    images = len(decoder.paths) - len(broken)
    about = CacheEntry(images=images, broken=tuple(broken), sha256=checksum.hexdigest())
    with _write_atomically(entry.with_suffix(".json")) as file:
        file.write(about.model_dump_json().encode())


@contextmanager
def _write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that is renamed to `path` once it is complete and synced to disk."""
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()
