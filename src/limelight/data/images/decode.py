"""Decode image files to pixels, whatever their format, mode and size. Headers are not trusted."""

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.paths import check_regular
from limelight.errors import WrongInput, wrong
from limelight.progress import track

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
SUFFIXES = {
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".bmp", ".dib"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".pfm"),
}
KNOWN = "PNG, JPEG, WebP, GIF, BMP, TIFF or PPM"
MOST_PIXELS = 2**26  # 8,192 × 8,192; larger images are malicious or need other tools
MOST_BYTES = 2**29  # an uncompressed image of that size with two bytes per channel
ORIENTATION = 0x0112  # EXIF tag
TILE_WIDTH, TILE_LENGTH = 0x0142, 0x0143
TRANSPOSITIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
MODES = {1: "L", 3: "RGB"}
CHUNK = 64  # images that are decoded ahead
MOST_THREADS = 8


class Scaling(Config):
    """How an image of any size becomes one of the size that a model reads."""

    fit: Literal["cover", "stretch"] = Field(
        "cover", description="cover: keep the proportions, and crop to the centre; stretch: do not keep them"
    )
    filter: Literal["lanczos", "bicubic", "bilinear", "nearest"] = Field(
        "lanczos", description="how pixels are interpolated"
    )
    crop_from: int = Field(
        0, ge=0, le=8_192, description="with stretch: side before the centre is cropped; 0: do not crop"
    )


FILTERS = {
    "lanczos": Image.Resampling.LANCZOS,
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
}
COVER = Scaling()


def read_image(
    source: Path | bytes | bytearray | memoryview,
    size: tuple[int, int] | None,
    channels: int,
    place: str = "",
    scaling: Scaling = COVER,
) -> Tensor:
    """-> (C, Y, X) of uint8

    Read an image file. `size` is (Y, X), to which it is scaled, by default to cover it; None keeps the
    original size. One channel is greyscale, three are RGB. The first of several frames is read,
    and transparent pixels are blended with white. Error messages name `place`, by default the file.
    """
    if channels not in MODES:
        raise wrong("channels", channels, "1 or 3")
    place = place or (str(source) if isinstance(source, Path) else "the image")
    content = _read_content(source, place)
    try:
        with _ignore_warnings, Image.open(BytesIO(content), formats=FORMATS) as image:
            _check_pixels(image.size, place)
            tags = getattr(image, "tag_v2", {})  # the tiles of a TIFF may be larger than the image
            _check_pixels((tags.get(TILE_WIDTH, 1), tags.get(TILE_LENGTH, 1)), place)
            if size is not None and scaling == COVER:
                # Decode a JPEG at 1/2, 1/4 or 1/8 of its size if that is at least twice the target size.
                image.draft(None, (2 * max(size), 2 * max(size)))
            image.load()
            return to_pixels(_apply_orientation(image), size, channels, scaling)
    except WrongInput:
        raise
    except UnidentifiedImageError:
        raise WrongInput(f"{place}: not a {KNOWN} image, or its header is damaged") from None
    except Image.DecompressionBombError:
        raise WrongInput(f"{place}: the image has more than {MOST_PIXELS:,} pixels; resize it") from None
    except Exception as error:  # Pillow raises many kinds of errors for damaged files
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WrongInput(f"{place}: the image is damaged: {reason}") from None


def to_pixels(
    image: Image.Image, size: tuple[int, int] | None, channels: int, scaling: Scaling = COVER
) -> Tensor:
    """-> (C, Y, X) of uint8

    Convert a Pillow image of any mode, scaled as in `read_image`.
    """
    flat = _flatten(image).convert(MODES[channels])
    if size is not None and flat.size != size[::-1]:
        flat = _scale(flat, size[::-1], scaling)
    pixels_YXC = np.asarray(flat).reshape(flat.height, flat.width, channels)
    return torch.from_numpy(pixels_YXC.transpose(2, 0, 1).copy())


def _scale(image: Image.Image, size: tuple[int, int], scaling: Scaling) -> Image.Image:
    """To a width and height."""
    if scaling.fit == "cover":
        return ImageOps.fit(image, size, FILTERS[scaling.filter])
    if not scaling.crop_from:
        return image.resize(size, FILTERS[scaling.filter])
    larger = image.resize((scaling.crop_from,) * 2, FILTERS[scaling.filter])
    left, top = ((scaling.crop_from - side) // 2 for side in size)
    return larger.crop((left, top, left + size[0], top + size[1]))


@dataclass(frozen=True)
class DecodedImages:
    """The pixels of many files, and which files could not be decoded."""

    pixels: Tensor  # (N, C, Y, X) of uint8, of the valid files
    broken: dict[int, str]  # index of a broken file -> reason


@dataclass(frozen=True)
class ImageDecoder:
    """Decodes many files to pixels of one shape."""

    paths: Sequence[Path]
    shape: tuple[int, int, int]  # C, Y, X
    hint: str | None  # appended to the error for a broken file; None: broken files are skipped
    scaling: Scaling = COVER

    def decode_file(self, path: Path) -> Tensor | str:
        """The pixels (C, Y, X) of a file, or the reason why it cannot be decoded."""
        place = str(path) if str(path).isprintable() else repr(str(path))
        try:
            if not os.path.isfile(path):  # reading a pipe would block
                raise WrongInput(f"{place}: not a file, or a broken link")
            return read_image(path, self.shape[1:], self.shape[0], place, self.scaling)
        except WrongInput as error:
            if self.hint is not None:
                raise WrongInput(f"{error}; {self.hint}") from None
            return str(error)

    def decode_files(self) -> Iterator[Tensor | str]:
        """Decode all files in order, in several threads: Pillow releases the GIL while it decodes."""
        with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
            chunks = (self.paths[start : start + CHUNK] for start in range(0, len(self.paths), CHUNK))
            decoded = (result for chunk in chunks for result in pool.map(self.decode_file, chunk))
            yield from track(decoded, len(self.paths))

    def decode(self) -> DecodedImages:
        """Decode all files into one tensor."""
        pixels_NCYX = torch.empty(len(self.paths), *self.shape, dtype=torch.uint8)
        broken: dict[int, str] = {}
        for index, result in enumerate(self.decode_files()):
            if isinstance(result, str):
                broken[index] = result
            else:
                pixels_NCYX[index - len(broken)] = result
        return DecodedImages(pixels_NCYX[: len(pixels_NCYX) - len(broken)], broken)


def _read_content(
    source: Path | bytes | bytearray | memoryview, place: str
) -> bytes | bytearray | memoryview:
    # Read at once: Pillow maps some files into memory, and a file that shrinks would crash the process.
    if isinstance(source, Path):
        try:
            check_regular(source)
            with source.open("rb") as file:
                source = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            raise WrongInput(f"{place}: {getattr(error, 'strerror', None) or error}") from None
    if not len(source):
        raise WrongInput(f"{place}: the file is empty")
    if len(source) > MOST_BYTES:
        raise WrongInput(f"{place}: the file has more than {MOST_BYTES:,} bytes")
    return source


def _check_pixels(size: tuple[int, int], place: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        size_given = f"the image has {width:,} × {height:,} pixels, more than {MOST_PIXELS:,}"
        raise WrongInput(f"{place}: {size_given}; resize it")
    if min(size) < 1:
        raise WrongInput(f"{place}: the image has {width} × {height} pixels; allowed: at least 1 × 1")


def _apply_orientation(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(ORIENTATION)
    except Exception:  # damaged metadata, but the pixels are valid
        return image
    transposition = TRANSPOSITIONS.get(orientation) if isinstance(orientation, int) else None
    return image if transposition is None else image.transpose(transposition)


def _flatten(image: Image.Image) -> Image.Image:
    """Convert to L or RGB, with transparent pixels blended with white."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _scale_to_bytes(image)
    if image.mode == "La":
        image = image.convert("LA")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        canvas = Image.new("RGB", image.size, "white")
        canvas.paste(image, mask=image.getchannel("A"))
        return canvas
    return image if image.mode == "L" else image.convert("RGB")


def _scale_to_bytes(image: Image.Image) -> Image.Image:
    """Scale integers and floats to bytes: black is 0, and white is 1, 255 or 65,535.

    White is 65,535 for 16-bit formats, otherwise the first of these that no value exceeds (1 only for
    floats). If there are negative or larger values, the smallest value is black and the largest is white.
    """
    values_YX = np.asarray(image)
    if not np.isfinite(values_YX).all():
        raise ValueError("some values are infinite or NaN")
    low, high = float(values_YX.min()), float(values_YX.max())
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        low, high = 0.0, 65_535.0
    elif low >= 0 and high <= 65_535:
        whites = (1.0, 255.0, 65_535.0) if image.mode == "F" else (255.0, 65_535.0)
        low, high = 0.0, next(white for white in whites if high <= white)
    scaled_YX = values_YX.astype(np.float64)
    scaled_YX -= low
    scaled_YX *= 255 / ((high - low) or 1)
    bytes_YX = np.rint(scaled_YX, out=scaled_YX).clip(0, 255).astype(np.uint8)
    if isinstance(transparent := image.info.get("transparency"), int):
        bytes_YX[values_YX == transparent] = 255
    return Image.fromarray(bytes_YX)


class _IgnoreWarnings:
    """Ignores Pillow's warnings: they concern images that are rejected here, or unimportant details.

    Threads share the warning filters: the first thread to enter adds a filter, the last to leave removes it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\b")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


_ignore_warnings = _IgnoreWarnings()
