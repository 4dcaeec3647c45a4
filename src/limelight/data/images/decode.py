"""Image files -> pixels, whatever their format, mode and size; what a file says of itself is not believed."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from limelight.data.paths import check_regular
from limelight.errors import WrongInput, wrong

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
SUFFIXES = {
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".bmp", ".dib"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".pfm"),
}
KNOWN = "PNG, JPEG, WebP, GIF, BMP, TIFF or PPM"
MOST_PIXELS = 2**26  # 8,192 × 8,192: beyond them a file is a trap, or needs other tools
MOST_BYTES = 2**29  # of such an image without compression, two bytes a channel
ORIENTATION = 0x0112  # the EXIF tag: how the camera was held
TILE_WIDTH, TILE_LENGTH = 0x0142, 0x0143
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
MODES = {1: "L", 3: "RGB"}
AT_ONCE = 64  # images that are decoded before the first of them is needed
MOST_THREADS = 8


def read_picture(
    source: Path | bytes | bytearray | memoryview,
    size: tuple[int, int] | None,
    channels: int,
    place: str = "",
) -> Tensor:
    """-> (C, Y, X) of uint8

    `size` is (Y, X): the image is scaled until it covers that, and its centre is kept; None leaves it as it
    is. One channel is grey, three are red, green and blue. Of several frames the first is read; what is
    transparent lies on white. Refusals name `place`, or else the file.
    """
    if channels not in MODES:
        raise wrong("channels", channels, "1 or 3")
    place = place or (str(source) if isinstance(source, Path) else "the image")
    content = _read_content(source, place)
    try:
        with _quiet, Image.open(BytesIO(content), formats=FORMATS) as image:
            _check_pixels(image.size, place)
            tags = getattr(image, "tag_v2", {})  # of a TIFF, whose tiles may be larger than itself
            _check_pixels((tags.get(TILE_WIDTH, 1), tags.get(TILE_LENGTH, 1)), place)
            if size is not None:
                # A JPEG is decoded at a half, a quarter or an eighth, if that is twice as large as wanted.
                image.draft(None, (2 * max(size), 2 * max(size)))
            image.load()
            return to_pixels(_turn(image), size, channels)
    except WrongInput:
        raise
    except UnidentifiedImageError:
        raise WrongInput(f"{place}: it is no {KNOWN} image, or its beginning is damaged") from None
    except Image.DecompressionBombError:
        raise WrongInput(f"{place}: the image has more than {MOST_PIXELS:,} pixels; reduce it") from None
    except Exception as error:  # on damaged files Pillow raises whatever its parts raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WrongInput(f"{place}: the image is damaged: {reason}") from None


def to_pixels(image: Image.Image, size: tuple[int, int] | None, channels: int) -> Tensor:
    """-> (C, Y, X) of uint8, from an image of any mode"""
    flat = _flatten(image).convert(MODES[channels])
    if size is not None and flat.size != size[::-1]:
        flat = ImageOps.fit(flat, size[::-1], Image.Resampling.LANCZOS)
    pixels_YXC = np.asarray(flat).reshape(flat.height, flat.width, channels)
    return torch.from_numpy(pixels_YXC.transpose(2, 0, 1).copy())


Progress = Callable[[int, int], None]  # is told how many files are decoded, of how many


@dataclass(frozen=True)
class Pixels:
    values: Tensor  # (N, C, Y, X) of uint8, of the files that can be read
    broken: dict[int, str]  # number of a file that cannot -> why


@dataclass(frozen=True)
class Decoding:
    """Many files -> pixels of one shape."""

    paths: Sequence[Path]
    shape: tuple[int, int, int]  # C, Y, X
    hint: str | None  # what is added when a broken file is refused; without it, such files are left out
    progress: Progress | None = None

    def one(self, path: Path) -> Tensor | str:
        """Its pixels, or why there are none."""
        place = str(path) if str(path).isprintable() else repr(str(path))
        try:
            if not os.path.isfile(path):  # a pipe that is called a.png would be waited for
                raise WrongInput(f"{place}: it is no file, or a link to nowhere")
            return read_picture(path, self.shape[1:], self.shape[0], place)
        except WrongInput as error:
            if self.hint is not None:
                raise WrongInput(f"{error}; {self.hint}") from None
            return str(error)

    def all(self) -> Iterator[Tensor | str]:
        """In order; Pillow lets go of the interpreter while it decodes, so that threads help."""
        with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
            for begin in range(0, len(self.paths), AT_ONCE):
                several = self.paths[begin : begin + AT_ONCE]
                yield from pool.map(self.one, several)
                if self.progress:
                    self.progress(begin + len(several), len(self.paths))

    def gather(self) -> Pixels:
        values = torch.empty(len(self.paths), *self.shape, dtype=torch.uint8)
        broken: dict[int, str] = {}
        for number, one in enumerate(self.all()):
            if isinstance(one, str):
                broken[number] = one
            else:
                values[number - len(broken)] = one
        return Pixels(values[: len(values) - len(broken)], broken)


def _read_content(
    source: Path | bytes | bytearray | memoryview, place: str
) -> bytes | bytearray | memoryview:
    # All at once: Pillow would map some files, and one that shrinks meanwhile would end the process.
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
        says = f"the image is {width:,} × {height:,} pixels, more than {MOST_PIXELS:,}"
        raise WrongInput(f"{place}: {says}; reduce it")
    if min(size) < 1:
        raise WrongInput(f"{place}: the image is {width} × {height}: it has no pixels")


def _turn(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(ORIENTATION)
    except Exception:  # what is said about the pixels is damaged, they are not
        return image
    turn = TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def _flatten(image: Image.Image) -> Image.Image:
    """As L or RGB, with white behind what is transparent."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _shrink_values(image)
    if image.mode == "La":
        image = image.convert("LA")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        canvas = Image.new("RGB", image.size, "white")
        canvas.paste(image, mask=image.getchannel("A"))
        return canvas
    return image if image.mode == "L" else image.convert("RGB")


def _shrink_values(image: Image.Image) -> Image.Image:
    """Large integers and floats as bytes: black is 0 and white the largest that 1, 8 or 16 bits hold.

    Which it is, 16-bit files say; else it is the first that no value exceeds, and 1 only of floats. Values
    that are negative or larger are stretched from the smallest, which becomes black, to the largest.
    """
    values_YX = np.asarray(image)
    if not np.isfinite(values_YX).all():
        raise ValueError("some values are infinite or no numbers")
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
    if isinstance(clear := image.info.get("transparency"), int):
        bytes_YX[values_YX == clear] = 255
    return Image.fromarray(bytes_YX)


class _Quiet:
    """Pillow's warnings are not shown. They say what is refused here, or what does not matter.

    Threads share the filters of warnings: the first that comes sets one, the last that goes takes it away.
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


_quiet = _Quiet()
