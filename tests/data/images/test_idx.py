"""IDX files, valid, damaged and malicious."""

import gzip
import random
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import must_fail, mutated, refused
from torch import Tensor

from limelight.data.images.idx import CLOTHES, CLOTHES_FIRST_LABELS, find_idx, read_idx
from limelight.data.images.image_data import ImageData
from limelight.data.images.image_folder import ImageFiles
from limelight.errors import WrongInput

TRAIN, TEST, Y, X, L = 53, 17, 7, 5, 3


def draw(count: int) -> tuple[Tensor, Tensor]:
    """Images and labels of all classes."""
    return torch.randint(256, (count, Y, X), dtype=torch.uint8), torch.arange(count) % L


def packed(array: Tensor) -> bytes:
    header = struct.pack(f">HBB{array.dim()}I", 0, 8, array.dim(), *array.shape)
    return header + array.to(torch.uint8).numpy().tobytes()


def write(
    folder: Path, split: str, both: tuple[Tensor, Tensor], dot: str = "-", gz: str = ""
) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = (
        folder / f"{split}-images{dot}idx3-ubyte{gz}",
        folder / f"{split}-labels{dot}idx1-ubyte{gz}",
    )
    for path, array in zip(paths, both, strict=True):
        path.write_bytes(gzip.compress(packed(array)) if gz else packed(array))
    return paths


def write_both(folder: Path, dot: str = "-", gz: str = "") -> dict[str, tuple[Tensor, Tensor]]:
    whole = {"train": draw(TRAIN), "test": draw(TEST)}
    write(folder, "train", whole["train"], dot, gz)
    write(folder, "t10k", whole["test"], dot, gz)
    return whole


def load(path: Path, seed: int = 1, **settings: Any) -> ImageData:
    return ImageFiles(path=str(path), **settings).load(seed)


def error_message(folder: Path) -> str:
    """The error message, or an empty string if there is no error."""
    return refused(read_idx, folder)


def check_error(folder: Path, expected: str) -> None:
    assert error_message(folder) == expected


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("dot", ["-", "."])
@pytest.mark.parametrize("below", [".", "raw", "FashionMNIST/raw", "MNIST"])
def test_every_image_is_read_with_its_label_in_every_folder_layout(
    tmp_path: Path, below: str, dot: str, gz: str
) -> None:
    whole = write_both(tmp_path / below, dot, gz)

    def check(path: Path) -> None:
        folder = find_idx(path)
        assert folder == path / below
        splits, names = read_idx(folder)
        assert names == ("0", "1", "2")
        for split, (pixels, labels) in whole.items():
            assert splits[split].pixels.equal(pixels.unsqueeze(1))
            assert splits[split].labels.equal(labels)

    check(tmp_path)
    write_both(tmp_path / below, dot, gz)
    must_fail(check, tmp_path)


def test_validation_is_held_out_from_training_and_the_test_split_is_unchanged(tmp_path: Path) -> None:
    whole = write_both(tmp_path)

    def check(data: ImageData) -> None:
        assert {name: len(images) for name, images in data.splits.items()} == {
            "train": 43,
            "validation": 10,
            "test": 17,
        }
        assert data.splits["test"].pixels.equal(whole["test"][0].unsqueeze(1))
        held = torch.cat([data.splits[name].pixels for name in ("train", "validation")])
        assert sorted(map(bytes, held.flatten(1).tolist())) == sorted(
            map(bytes, whole["train"][0].flatten(1).tolist())
        )

    check(load(tmp_path, validation=0.19))
    assert load(tmp_path).notes == ("train: 53 images of 7 × 5", "test: 17 images of 7 × 5")
    must_fail(check, load(tmp_path, validation=0.3))


def test_without_test_files_a_test_split_is_held_out_too(tmp_path: Path) -> None:
    write(tmp_path, "train", draw(TRAIN))
    data = load(tmp_path)
    assert {name: len(images) for name, images in data.splits.items()} == {
        "train": 43,
        "validation": 5,
        "test": 5,
    }


def test_compression_is_detected_from_the_content_and_not_from_the_name(tmp_path: Path) -> None:
    pixels, labels = draw(TRAIN)
    images, names = write(tmp_path, "train", (pixels, labels), gz=".gz")
    images.write_bytes(packed(pixels))  # as some browsers do
    names.rename(names.with_suffix("")).write_bytes(gzip.compress(packed(labels)))
    splits, _ = read_idx(tmp_path)
    assert splits["train"].pixels.equal(pixels.unsqueeze(1))
    assert splits["train"].labels.equal(labels)


def test_uncompressed_files_are_preferred(tmp_path: Path) -> None:
    write(tmp_path, "train", draw(TRAIN), gz=".gz")
    pixels, labels = draw(TRAIN)
    write(tmp_path, "train", (pixels, labels))
    assert read_idx(tmp_path)[0]["train"].pixels.equal(pixels.unsqueeze(1))


def test_fashion_mnist_has_its_class_names(tmp_path: Path) -> None:
    def check(begin: tuple[int, ...]) -> None:
        labels = torch.tensor(begin)
        write(tmp_path, "train", (torch.zeros(len(labels), Y, X), labels))
        assert read_idx(tmp_path)[1] == CLOTHES

    check(CLOTHES_FIRST_LABELS)
    must_fail(check, CLOTHES_FIRST_LABELS[::-1])


def test_two_data_sets_in_one_folder_are_an_error(tmp_path: Path) -> None:
    write_both(tmp_path / "MNIST" / "raw")
    assert find_idx(tmp_path) == tmp_path / "MNIST" / "raw"
    write_both(tmp_path / "KMNIST" / "raw")
    with pytest.raises(WrongInput, match="both KMNIST/raw and MNIST/raw contain IDX files; pass one of them"):
        find_idx(tmp_path)
    assert find_idx(tmp_path / "nowhere") is None


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
Change = Callable[[bytes], bytes]
BROKEN: list[tuple[str, Change, str]] = [
    (
        IMAGES,
        lambda content: b"\0\0\x08\x01" + content[4:],
        "the file starts with 00 00 08 01; an IDX file of bytes with 3 axes starts with 00 00 08 03",
    ),
    (
        LABELS,
        lambda content: b"\0\0\x0d\x01" + content[4:],
        "the file starts with 00 00 0d 01; an IDX file of bytes with 1 axis starts with 00 00 08 01",
    ),
    (
        IMAGES,
        lambda content: b"",
        "the file is empty; an IDX file of bytes with 3 axes starts with 00 00 08 03",
    ),
    (IMAGES, lambda content: content[:13], "the file ends inside its header"),
    (
        IMAGES,
        lambda content: content[:-11],
        "1,844 bytes follow the header, but its size is 1,855 bytes; download the file again",
    ),
    (
        IMAGES,
        lambda content: content + b"\0",
        "more bytes follow the header, but its size is 1,855 bytes; download the file again",
    ),
    (
        LABELS,
        lambda content: b"\0\0\x08\x01\0\0\0\x05" + content[8:13],
        f"5 labels for 53 images in {IMAGES}; the numbers must be equal",
    ),
    (
        LABELS,
        lambda content: content[:-1] + b"\xc8",
        "the largest label is 200, but no training image has label 3",
    ),
    (
        LABELS,
        lambda content: content[:8] + bytes(53),
        "all labels are 0; at least two different labels are needed",
    ),
    (
        IMAGES,
        lambda content: content[:4] + b"\xff" * 12,
        "the size in the header is 4,294,967,295 × 4,294,967,295 × 4,294,967,295 bytes; "
        "allowed: at most 1,073,741,824",
    ),
    (
        IMAGES,
        lambda content: content[:8] + bytes(4) + content[12:],
        "the size in the header is 53 × 0 × 5 bytes; allowed: at least 1",
    ),
    (
        IMAGES,
        lambda content: gzip.compress(content)[:-9],
        "the file is damaged: Compressed file ended before the end-of-stream marker was reached; "
        "download it again",
    ),
    (
        IMAGES,
        lambda content: gzip.compress(content)[:-8] + bytes(8),
        "the file is damaged: CRC check failed 0x0 != {crc}; download it again",
    ),
    (
        IMAGES,
        lambda content: gzip.compress(content) + b"more",
        "the file is damaged: Not a gzipped file (b'mo'); download it again",
    ),
]


@pytest.mark.parametrize(("name", "change", "reason"), BROKEN)
def test_the_error_for_a_broken_file_names_it(tmp_path: Path, name: str, change: Change, reason: str) -> None:
    write_both(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    expected = f"{path}: {reason.format(crc=hex(zlib.crc32(content)))}"
    path.write_bytes(change(content))
    check_error(tmp_path, expected)
    path.write_bytes(content)
    must_fail(check_error, tmp_path, expected)


def test_a_test_label_that_does_not_occur_in_training_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "train", draw(TRAIN))
    pixels, labels = draw(TEST)
    labels[5] = L
    path = write(tmp_path, "t10k", (pixels, labels))[1]
    expected = f"{path}: the largest label is 3, but no training image has label 3"
    check_error(tmp_path, expected)
    write(tmp_path, "t10k", draw(TEST))
    must_fail(check_error, tmp_path, expected)


def test_images_of_different_sizes_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "train", draw(TRAIN))
    pixels, labels = draw(TEST)
    write(tmp_path, "t10k", (pixels.mT, labels))
    check_error(tmp_path, f"{tmp_path}: the training images are 7 × 5, the test images 5 × 7")


@pytest.mark.parametrize("name", [IMAGES, LABELS, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"])
def test_images_without_labels_and_labels_without_images_are_errors(tmp_path: Path, name: str) -> None:
    write_both(tmp_path)
    (tmp_path / name).unlink()
    check_error(tmp_path, f"{tmp_path}: {name} or its .gz is missing")
    must_fail(check_error, tmp_path, f"{tmp_path}: train is missing")


def test_test_files_without_training_files_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "t10k", draw(TEST))
    check_error(tmp_path, f"{tmp_path}: {IMAGES} or its .gz is missing")


def peak(folder: Path) -> tuple[str, int]:
    """The error message, and the peak memory in bytes."""
    tracemalloc.start()
    message = error_message(folder)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return message, most


@pytest.mark.parametrize(("gz", "images"), [("", 1_299_827), (".gz", 19_997)])
def test_memory_is_allocated_for_existing_bytes_and_not_for_the_size_in_the_header(
    tmp_path: Path, gz: str, images: int
) -> None:
    pixels, labels = draw(TRAIN)
    path = write(tmp_path, "train", (pixels, labels), gz=gz)[0]
    content = packed(pixels)[:4] + struct.pack(">3I", images, 28, 28) + packed(pixels)[16:]
    path.write_bytes(gzip.compress(content) if gz else content)
    message, most = peak(tmp_path)
    assert message == (
        f"{path}: 1,855 bytes follow the header, but its size is {images * 784:,} bytes; "
        "download the file again"
    )
    assert most < 5_000_000


def test_a_decompression_bomb_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    """19 MB of zeros in 19 kB: rejected by the size in the header, or as soon as more bytes follow."""
    path = write(tmp_path, "train", draw(TRAIN), gz=".gz")[0]
    zeros = bytes(28 * 28 * 24_023)

    def check(images: int, reason: str) -> None:
        path.write_bytes(gzip.compress(struct.pack(">HBB3I", 0, 8, 3, images, 28, 28) + zeros))
        message, most = peak(tmp_path)
        assert message == f"{path}: {reason}"
        assert most < 5_000_000

    check(24_023, "the uncompressed size is more than 200 times the size of the file")
    check(1, "more bytes follow the header, but its size is 784 bytes; download the file again")
    must_fail(check, 24_023, "the file is empty")


def check_reads_or_refuses(folder: Path, path: Path) -> bool:
    try:
        splits, names = read_idx(folder)
    except WrongInput as error:
        refused = str(error)
    except Exception as error:
        raise AssertionError(f"{path}: {error!r}") from error
    else:
        refused = ""
    if refused:
        assert re.fullmatch(rf"{re.escape(str(folder))}(/\S+)?: \S.*", refused), refused
        return False
    for images in splits.values():
        assert images.pixels.shape[1] == 1
        assert images.pixels.dtype == torch.uint8
        assert len(images.pixels) == len(images.labels) > 0
        assert 0 <= images.labels.min() <= images.labels.max() < len(names)
    return True


def check_mutations(folder: Path, count: int) -> None:
    chosen = random.Random(11)
    write_both(folder)
    contents = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    read = 0
    for _ in range(count):
        path = chosen.choice(list(contents))
        broken = mutated(contents[path], (b"\0", b"\x01", b"\x08", b"\xff"), chosen)
        packed = mutated(gzip.compress(contents[path], 1), (b"\0", b"\x1f"), chosen)
        path.unlink()  # overwriting a file would wait for the disk
        path.write_bytes(chosen.choice([broken, broken, gzip.compress(broken, 1), packed]))
        read += check_reads_or_refuses(folder, path)
        path.unlink()
        path.write_bytes(contents[path])
    assert count / 50 < read < count * 9 / 10, read  # the damage is neither too small nor too large


def test_damaged_files_are_either_read_or_give_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 503)
    must_fail(check_reads_or_refuses, None, tmp_path)


@pytest.mark.torture
def test_ten_thousand_damaged_files_are_either_read_or_give_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 10_000)
