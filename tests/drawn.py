"""Small images for tests."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("PNG", {}),
    ("JPEG", {}),
    ("JPEG", {"progressive": True}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("GIF", {}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("PPM", {}),
]


def save(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """The image as the bytes of a file."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def noise(rows: int = 7, columns: int = 5, seed: int = 1) -> Image.Image:
    """An image of random pixels."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8))


def tensor(image: Image.Image) -> Tensor:
    """-> (C, Y, X)"""
    return torch.tensor(np.asarray(image)).permute(2, 0, 1)


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG file with this size in its header and these compressed pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", data) + chunk(b"IEND", b"")
