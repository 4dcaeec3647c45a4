"""Decoding of single image files: all modes, damaged files, malicious files."""

import io
import random
import re
import resource
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn import WHOLE, chunk, noise, png, save, tensor
from PIL import Image, PngImagePlugin
from support import must_fail, mutated
from torch import Tensor

from limelight.data.images.decode import MOST_PIXELS, read_image, to_pixels
from limelight.errors import WrongInput

Color = tuple[int, ...]
RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)
SKIP = "; fix it, or skip such files: --set task.data.broken=skip"


def row(mode: str, values: list[Any], palette: Sequence[Color] | None = None, **info: Any) -> Image.Image:
    """An image of one row."""
    image = Image.new(mode, (len(values), 1))
    if palette:
        image.putpalette([value for color in palette for value in color])
    for x, value in enumerate(values):
        image.putpixel((x, 0), value)
    image.info.update(info)
    return image


def colors(pixels: Tensor) -> list[Color]:
    return [tuple(color) for color in pixels.flatten(1).T.tolist()]


def grey(*values: int) -> list[Color]:
    return [(value, value, value) for value in values]


def error_message(source: Path | bytes, size: tuple[int, int] | None = (7, 5)) -> str:
    """The error message, or an empty string if there is no error."""
    try:
        read_image(source, size, 3, "" if isinstance(source, Path) else "a.png")
    except WrongInput as error:
        return str(error)
    return ""


def check_error(source: Path | bytes, expected: str) -> None:
    assert error_message(source) == expected


def deep(values: list[int], clear: int | None = None) -> bytes:
    """A grey PNG of 16 bits."""
    options: dict[str, Any] = {} if clear is None else {"transparency": clear}
    return save(Image.fromarray(np.array([values], dtype=np.uint16)), **options)


def floats(values: list[float]) -> bytes:
    return save(Image.fromarray(np.array([values], dtype=np.float32)), "TIFF")


def integers(values: list[int]) -> bytes:
    return save(Image.fromarray(np.array([values], dtype=np.int32)), "TIFF")


FIVE: list[Color] = [BLACK, (200, 100, 0), RED, (1, 2, 3), WHITE]
MODES: list[tuple[str, str, bytes, list[Color]]] = [
    ("1", "1", save(row("1", [0, 1, 0])), [BLACK, WHITE, BLACK]),
    ("1", "TIFF", save(row("1", [0, 1, 1]), "TIFF"), [BLACK, WHITE, WHITE]),
    ("L", "PNG", save(row("L", [0, 99, 255])), grey(0, 99, 255)),
    ("L", "clear", save(row("L", [0, 99, 255]), transparency=99), grey(0, 255, 255)),
    ("LA", "PNG", save(row("LA", [(99, 255), (99, 0), (0, 51)])), grey(99, 255, 204)),
    ("P", "PNG", save(row("P", [1, 3, 2], FIVE)), [FIVE[1], FIVE[3], FIVE[2]]),
    ("P", "GIF", save(row("P", [1, 3, 2], FIVE), "GIF"), [FIVE[1], FIVE[3], FIVE[2]]),
    ("P", "BMP", save(row("P", [1, 3, 2], FIVE), "BMP"), [FIVE[1], FIVE[3], FIVE[2]]),
    ("P", "clear", save(row("P", [1, 3, 2], FIVE), transparency=3), [FIVE[1], WHITE, RED]),
    ("P", "clear GIF", save(row("P", [1, 3, 2], FIVE), "GIF", transparency=3), [FIVE[1], WHITE, RED]),
    (
        "P",
        "half clear",
        save(row("P", [1, 3, 2], FIVE), transparency=b"\xff\x33\xff\x00\xff"),
        [(244, 224, 204), WHITE, RED],
    ),
    (
        "PA",
        "TIFF",
        save(row("PA", [(1, 255), (2, 51), (0, 0)], FIVE), "TIFF"),
        [FIVE[1], (255, 204, 204), WHITE],
    ),
    ("RGB", "PNG", save(row("RGB", FIVE)), FIVE),
    ("RGB", "BMP", save(row("RGB", FIVE), "BMP"), FIVE),
    ("RGB", "PPM", save(row("RGB", FIVE), "PPM"), FIVE),
    ("RGB", "TIFF", save(row("RGB", FIVE), "TIFF", compression="tiff_lzw"), FIVE),
    ("RGB", "WebP", save(row("RGB", FIVE), "WEBP", lossless=True), FIVE),
    ("RGB", "clear", save(row("RGB", FIVE), transparency=RED), [*FIVE[:2], WHITE, *FIVE[3:]]),
    (
        "RGBA",
        "PNG",
        save(row("RGBA", [(200, 100, 0, 51), (*RED, 0), (*RED, 255)])),
        [(244, 224, 204), WHITE, RED],
    ),
    (
        "RGBA",
        "WebP",
        save(row("RGBA", [(200, 100, 0, 51), (*RED, 0), (*RED, 255)]), "WEBP", lossless=True),
        [(244, 224, 204), WHITE, RED],
    ),
    (
        "CMYK",
        "TIFF",
        save(row("CMYK", [(0, 255, 255, 0), (0, 0, 0, 255), (0, 0, 0, 0), (255, 0, 255, 0)]), "TIFF"),
        [RED, BLACK, WHITE, GREEN],
    ),
    (
        "YCbCr",
        "TIFF",
        save(row("YCbCr", [(255, 128, 128), (76, 85, 255), (0, 128, 128)]), "TIFF"),
        [WHITE, (254, 0, 0), BLACK],
    ),
    ("I;16", "PNG", deep([0, 25_700, 65_535, 128]), grey(0, 100, 255, 0)),
    ("I;16", "clear", deep([0, 25_700, 65_535], clear=25_700), grey(0, 255, 255)),
    ("I;16B", "TIFF", save(row("I;16B", [0, 25_700, 65_535]), "TIFF"), grey(0, 100, 255)),
    ("I", "PGM", b"P5 3 1 65535\n" + struct.pack(">3H", 0, 200, 257 * 99), grey(0, 1, 99)),
    ("I", "of 8 bits", integers([0, 99, 255]), grey(0, 99, 255)),
    ("I", "of 16 bits", integers([0, 25_700, 65_535]), grey(0, 100, 255)),
    ("I", "of any", integers([-1_000_000, 0, 1_000_000]), grey(0, 128, 255)),
    ("I", "of one", integers([-7, -7, -7]), grey(0, 0, 0)),
    ("F", "up to 1", floats([0.0, 0.2, 1.0]), grey(0, 51, 255)),
    ("F", "up to 255", floats([0.0, 99.0, 1.5]), grey(0, 99, 2)),
    ("F", "up to 65,535", floats([0.0, 25_700.0, 65_535.0]), grey(0, 100, 255)),
    ("F", "of any", floats([-3e38, 0.0, 3e38]), grey(0, 128, 255)),
]


@pytest.mark.parametrize(
    ("mode", "content", "expected"),
    [(mode, content, expected) for mode, _, content, expected in MODES],
    ids=[f"{mode} {form}" for mode, form, _, _ in MODES],
)
def test_every_image_mode_is_decoded_to_its_colors(mode: str, content: bytes, expected: list[Color]) -> None:
    def check(expected: list[Color]) -> None:
        with Image.open(io.BytesIO(content)) as image:
            assert image.mode == mode
        pixels = read_image(content, None, 3)
        assert pixels.dtype == torch.uint8
        assert pixels.is_contiguous()
        assert colors(pixels) == expected

    check(expected)
    must_fail(check, [(*color[:2], color[2] ^ 1) for color in expected])


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (row("HSV", [(0, 255, 255), (85, 255, 255), (170, 255, 255)]), [RED, GREEN, BLUE]),
        (row("RGBX", [(*RED, 0), (*BLUE, 99)]), [RED, BLUE]),
        (row("RGBA", [(200, 100, 0, 51), (*RED, 0)]).convert("RGBa"), [(244, 224, 204), WHITE]),
        (row("LA", [(0, 51), (99, 0), (99, 255)]).convert("La"), grey(204, 255, 99)),
        (row("I;16L", [0, 25_700, 65_535]), grey(0, 100, 255)),
    ],
    ids=lambda value: value.mode if isinstance(value, Image.Image) else "",
)
def test_modes_without_a_file_format_are_converted_to_their_colors(
    image: Image.Image, expected: list[Color]
) -> None:
    assert colors(to_pixels(image, None, 3)) == expected


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "HSV", "RGBA", "YCbCr"])
def test_one_channel_is_the_luminance(mode: str) -> None:
    image = row("RGB", [RED, GREEN, BLUE, WHITE, BLACK]).convert(mode)
    found = to_pixels(image, None, 1)
    assert found.shape == (1, 1, 5)
    assert (found - torch.tensor([76, 150, 29, 255, 0])).abs().max() <= 2  # modes round


def test_lab_images_are_converted_to_the_correct_color() -> None:
    """In the CIELAB of print, sRGB's red is (54.3, 80.8, 69.9), and its brightness 76."""
    content = save(row("LAB", [(138, 128 + 81, 128 + 70), (255, 128, 128), (0, 128, 128)]), "TIFF")

    def check(expected: list[Color]) -> None:
        with Image.open(io.BytesIO(content)) as image:
            assert image.mode == "LAB"
        found = read_image(content, None, 3).flatten(1).T.int()
        assert (found - torch.tensor(expected)).abs().max() <= 5
        assert (read_image(content, None, 1).int() - torch.tensor([76, 255, 0])).abs().max() <= 3

    check([RED, WHITE, BLACK])
    must_fail(check, [GREEN, WHITE, BLACK])


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_is_decoded_to_its_colors(mode: str, progressive: bool) -> None:
    """Print shops save CMYK, and Adobe saves it inverted."""

    def check(color: Color) -> None:
        image = Image.new("RGB", (32, 16), (200, 100, 50)).convert(mode)
        pixels = read_image(save(image, "JPEG", quality=95, progressive=progressive), None, 3)
        assert pixels.shape == (3, 16, 32)
        assert (pixels.flatten(1).T.int() - torch.tensor(color)).abs().max() <= 3

    check((124, 124, 124) if mode == "L" else (200, 100, 50))
    must_fail(check, (55, 155, 205))


TURNED: dict[int, Callable[[Any], Any]] = {
    1: lambda stored: stored,
    2: np.fliplr,
    3: lambda stored: np.rot90(stored, 2),
    4: np.flipud,
    5: lambda stored: stored.swapaxes(0, 1),
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: np.rot90(stored, 2).swapaxes(0, 1),
    8: np.rot90,
}


@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF", "JPEG"])
@pytest.mark.parametrize("orientation", TURNED)
def test_the_exif_orientation_is_applied(form: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    blocks = np.kron(np.asarray(noise(3, 2)), np.ones((16, 16, 1), dtype=np.uint8))
    special: dict[str, dict[str, Any]] = {
        "WEBP": {"lossless": True},
        "JPEG": {"quality": 100, "subsampling": 0},
    }
    options = special.get(form, {})
    content = save(Image.fromarray(blocks), form, exif=exif, **options)

    def check(turned: Callable[[Any], Any]) -> None:
        expected = torch.tensor(turned(blocks).copy()).permute(2, 0, 1)
        found = read_image(content, None, 3)
        assert found.shape == expected.shape
        assert (found.int() - expected.int()).abs().max() <= (3 if form == "JPEG" else 0)

    check(TURNED[orientation])
    must_fail(check, TURNED[orientation % 8 + 1])


@pytest.mark.parametrize("exif", [b"", b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0rubbish"])
def test_an_image_with_damaged_metadata_is_decoded(exif: bytes) -> None:
    content = save(noise(), "PNG", exif=exif)
    assert read_image(content, None, 3).equal(tensor(noise()))


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_of_several_frames_is_decoded(form: str) -> None:
    red, blue = (Image.new("RGB", (5, 7), color) for color in (RED, BLUE))

    def check(*frames: Image.Image) -> None:
        options: dict[str, Any] = {"lossless": True} if form == "WEBP" else {}
        content = save(frames[0], form, save_all=True, append_images=frames[1:], **options)
        with Image.open(io.BytesIO(content)) as image:
            assert getattr(image, "n_frames", 1) == len(frames)
        assert {*colors(read_image(content, None, 3))} == {RED}

    check(red, blue, red)
    must_fail(check, blue, red, red)


def test_an_image_is_scaled_to_cover_the_size_and_cropped_to_the_centre() -> None:
    wide = Image.new("RGB", (90, 14))
    for left, color in ((0, RED), (30, GREEN), (60, BLUE)):
        wide.paste(color, (left, 0, left + 30, 14))
    for image in (wide, wide.rotate(90, expand=True)):
        found = read_image(save(image), (7, 7), 3)
        assert found.shape == (3, 7, 7)
        assert {*colors(found)} == {GREEN}
    assert read_image(save(wide), (2, 13), 3).shape == (3, 2, 13)
    assert {*colors(read_image(save(wide), (2, 13), 3))} > {RED, BLUE}
    assert {*colors(read_image(save(Image.new("RGB", (2, 3), RED)), (7, 5), 3))} == {RED}


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_downscaling_averages_pixels(form: str) -> None:
    """Fine stripes become grey; taking every fourth pixel would give black or white."""
    stripes = np.zeros((256, 256), dtype=np.uint8)
    stripes[:, ::4] = stripes[:, 1::4] = 255

    def check(size: tuple[int, int] | None) -> None:
        found = read_image(save(Image.fromarray(stripes), form, quality=95), size, 1)
        assert (
            found[:, 2:-2, 2:-2].int() - 127
        ).abs().max() <= 9  # pixels at the border average fewer pixels

    check((17, 17))
    must_fail(check, None)


def test_the_format_is_detected_from_the_content_and_not_from_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(save(noise()))
    assert read_image(path, None, 3).equal(tensor(noise()))
    path.write_bytes(b"GIF, that is what this text is called")
    no_image = "not a PNG, JPEG, WebP, GIF, BMP, TIFF or PPM image, or its header is damaged"
    check_error(path, f"{path}: {no_image}")
    path.write_bytes(save(noise(), "TGA"))  # Pillow could read it
    check_error(path, f"{path}: {no_image}")
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 7 5\n")  # Pillow would start a program
    check_error(path, f"{path}: {no_image}")
    path.write_bytes(b"")
    check_error(path, f"{path}: the file is empty")
    check_error(tmp_path, f"{tmp_path}: Is a directory")
    check_error(tmp_path / "b.png", f"{tmp_path / 'b.png'}: No such file or directory")
    path.write_bytes(save(noise(), "BMP"))
    must_fail(check_error, path, f"{path}: {no_image}")


@pytest.mark.parametrize("source", [bytes, bytearray, memoryview])
def test_an_image_can_be_decoded_from_bytes(source: Callable[[bytes], Any]) -> None:
    assert read_image(source(save(noise())), None, 3).equal(tensor(noise()))
    with pytest.raises(WrongInput, match=r"^the image: the file is empty$"):
        read_image(source(b""), None, 3)
    with pytest.raises(WrongInput, match="channels is 2; allowed: 1 or 3"):
        read_image(source(save(noise())), None, 2)


def test_values_that_are_not_finite_are_an_error() -> None:
    reason = "the image is damaged: some values are infinite or NaN"
    check_error(floats([0.0, float("nan")]), f"a.png: {reason}")
    check_error(floats([0.0, float("inf")]), f"a.png: {reason}")
    must_fail(check_error, floats([0.0, 1.0]), f"a.png: {reason}")


@pytest.mark.parametrize(("form", "options"), WHOLE)
def test_a_truncated_file_is_an_error(form: str, options: dict[str, Any]) -> None:
    content = save(noise(13, 11), form, **options)
    whole = read_image(content, None, 3)
    refused = 0
    for cut in range(0, len(content), 7):
        try:
            assert read_image(content[:cut], None, 3).equal(whole)  # only the end marker is missing
        except WrongInput:
            refused += 1
    assert refused > 0.9 * len(content) / 7


# Images that are too large.


def patched(content: bytes, mark: bytes, beyond: int, layout: str, *values: int) -> bytes:
    """Replace the bytes after a marker."""
    at = content.index(mark) + beyond
    return content[:at] + struct.pack(layout, *values) + content[at + struct.calcsize(layout) :]


def tiff(width: int, height: int, tile: int) -> bytes:
    """A TIFF of a hundred bytes with one tile."""
    data = zlib.compress(bytes(1_000)).ljust(18, b"\0")
    wide = ((256, width), (257, height), (322, tile), (323, tile), (324, 8), (325, len(data)))
    narrow = ((258, 8), (259, 8), (262, 1), (277, 1))
    entries = {tag: struct.pack("<HHII", tag, 4, 1, value) for tag, value in wide}
    entries |= {tag: struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in narrow}
    table = b"".join(entries[tag] for tag in sorted(entries))
    return (
        b"II*\0"
        + struct.pack("<I", 8 + len(data))
        + data
        + struct.pack("<H", len(entries))
        + table
        + bytes(4)
    )


SMALL, SIDE = Image.new("RGB", (16, 16)), 30_000
BOMBS = {
    "PNG": png(SIDE, SIDE),
    "PNG of a line": png(2**31 - 1, 1),
    "GIF": patched(save(SMALL, "GIF"), b"GIF8", 6, "<HH", SIDE, SIDE),
    "GIF with a large frame": patched(save(SMALL, "GIF"), b",\0\0\0\0", 5, "<HH", SIDE, SIDE),
    "BMP": patched(save(SMALL, "BMP"), b"BM", 18, "<ii", SIDE, SIDE),
    "JPEG": patched(save(SMALL, "JPEG"), b"\xff\xc0", 5, ">HH", SIDE, SIDE),
    "WebP": patched(save(SMALL, "WEBP", lossless=True), b"VP8L", 9, "<I", 16_383 | 16_383 << 14),
    "PPM": b"P6 30000 30000 255\n",
    "TIFF": tiff(SIDE, SIDE, 16),
    "TIFF with a large tile": tiff(16, 16, SIDE - SIDE % 16),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb_is_rejected_by_its_header(name: str) -> None:
    limit = Image.MAX_IMAGE_PIXELS

    def check(content: bytes) -> None:
        assert len(content) < 1_000
        before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        assert re.fullmatch(
            r"a\.png: the image .* more than 67,108,864( pixels)?; resize it", error_message(content)
        )
        assert time.perf_counter() - begin < 2
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kilobytes
        assert limit == Image.MAX_IMAGE_PIXELS

    check(BOMBS[name])
    must_fail(check, save(SMALL))


@pytest.mark.parametrize("side", [8_209, 9_467, 13_397])
def test_images_that_pillow_only_warns_about_are_also_an_error(side: int) -> None:
    """Pillow accepts the first size, warns about the second and raises an error for the third."""
    assert "more than 67,108,864" in error_message(png(side, side))


def test_an_image_of_the_maximum_size_is_not_rejected_for_its_size() -> None:
    assert MOST_PIXELS == 8_192**2
    assert "truncated" in error_message(png(8_192, 8_192))
    assert "more than" in error_message(png(8_192, 8_193))


def test_threads_do_not_change_the_warning_filters() -> None:
    """Pillow warns about an animation without frames, and decodes the image."""
    content = save(noise())
    content = content[:33] + chunk(b"acTL", bytes(8)) + content[33:]
    with pytest.warns(UserWarning, match="Invalid APNG"), Image.open(io.BytesIO(content)) as image:
        image.load()
    before = list(warnings.filters)
    with ThreadPoolExecutor(7) as pool:
        found = list(pool.map(lambda _: read_image(content, None, 3), range(211)))
    assert all(pixels.equal(tensor(noise())) for pixels in found)
    assert warnings.filters == before
    with pytest.raises(UserWarning):  # the tests turn warnings into errors
        warnings.warn("still heard", stacklevel=1)


# Damaged files.


def mended(content: bytes) -> bytes:
    """A damaged PNG with correct checksums, so that the damage reaches the decoder."""
    parts, at = [content[:8]], 8
    while at + 12 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        parts.append(chunk(content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    return b"".join(parts)


def check_reads_or_refuses(content: bytes) -> bool:
    try:
        pixels = read_image(content, (7, 5), 3, "a.png")
    except WrongInput as error:
        refused = str(error)
    except Exception as error:
        raise AssertionError(f"{content!r}: {error!r}") from error
    else:
        refused = ""
    if refused:
        assert re.fullmatch(r"a\.png: \S.*", refused), refused
        return False
    assert pixels.shape == (3, 7, 5)
    assert pixels.dtype == torch.uint8
    return True


def check_mutations(count: int, contents: list[bytes]) -> None:
    draw = random.Random(11)
    marks = (b"IHDR", b"IDAT", b"tRNS", b"PLTE", b"\0", b"\xff", b"\x01", b"\x08")
    loaded = 0
    for _ in range(count):
        content = draw.choice(contents)
        broken = mutated(content, marks, draw)
        loaded += check_reads_or_refuses(mended(broken) if draw.random() < 0.5 else broken)
    assert count / 50 < loaded < count * 9 / 10, loaded  # the damage is neither too small nor too large


def pngs() -> list[bytes]:
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", "seven by five", zip=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = [noise(seed=seed) for seed in range(3)]
    return [
        save(noise(13, 11), pnginfo=about, exif=exif),
        save(noise(13, 11).quantize(7), transparency=b"\0\x33\xff"),
        deep(list(range(0, 60_000, 991)), clear=0),
        save(noise(13, 11).convert("LA")),
        save(frames[0], save_all=True, append_images=frames[1:]),
    ]


def others() -> list[bytes]:
    return [save(noise(13, 11), form, **options) for form, options in WHOLE]


def test_damaged_pngs_are_either_decoded_or_give_a_clear_error() -> None:
    check_mutations(503, pngs())
    must_fail(check_reads_or_refuses, None)


def test_damaged_images_of_other_formats_are_either_decoded_or_give_a_clear_error() -> None:
    check_mutations(503, others())


@pytest.mark.torture
def test_ten_thousand_damaged_images_are_either_decoded_or_give_a_clear_error() -> None:
    check_mutations(10_000, pngs() + others())
