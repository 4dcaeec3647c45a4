"""CIFAR-10 in all formats, valid, damaged and malicious."""

import gzip
import hashlib
import io
import os
import pickle
import random
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import must_fail, mutated, refused

from limelight.config import read
from limelight.data.images import cifar10
from limelight.data.images.cifar10 import NAMES, Cifar10
from limelight.data.images.image_data import ImageData
from limelight.errors import WrongInput

SIZES = (7, 11, 13, 5, 3)  # of the training batches
TRAIN, TEST = sum(SIZES), 17
RECORD = 3_073
DRAW = np.random.default_rng(19)
IMAGES = DRAW.integers(0, 256, (TRAIN + TEST, 3, 32, 32), dtype=np.uint8)
LABELS = DRAW.integers(0, 10, TRAIN + TEST, dtype=np.uint8)
FORMATS = "allowed: a folder of CIFAR-10 batches, a .tar.gz, .tgz or .tar of them, or an .npz file"

Files = dict[str, bytes]


def batches() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    parts = zip(*(np.split(array, np.cumsum(SIZES)) for array in (IMAGES, LABELS)), strict=True)
    return dict(zip([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"], parts, strict=True))


def record(image: np.ndarray, label: int) -> bytes:
    return bytes([label]) + image.tobytes()


ONE = record(IMAGES[0], LABELS[0])


def binary() -> Files:
    files = {
        f"{name}.bin": b"".join(map(record, images, labels)) for name, (images, labels) in batches().items()
    }
    return {"batches.meta.txt": ("\n".join(NAMES) + "\n\n").encode(), **files, "readme.html": b"<html>"}


def pickled(protocol: int = 2, form: Callable[[str], Any] = str.encode) -> Files:
    files = {
        name: {
            form("data"): images.reshape(-1, 3_072),
            form("labels"): labels.tolist(),
            form("filenames"): ["a"],
        }
        for name, (images, labels) in batches().items()
    }
    meta = {form("label_names"): [form(name) for name in NAMES], form("num_vis"): 3_072}
    return {
        name: pickle.dumps(value, protocol) for name, value in {**files, "batches.meta": meta}.items()
    }  # fmt: skip


def arrays(
    x: str = "x_{}", y: str = "y_{}", last: bool = True, column: bool = False, **others: np.ndarray
) -> bytes:
    """An .npz file, with the channels first or last."""
    stream = io.BytesIO()
    images = IMAGES.transpose(0, 2, 3, 1) if last else IMAGES
    labels = LABELS.astype(np.int64)[:, None] if column else LABELS
    parts = {"train": slice(0, TRAIN), "test": slice(TRAIN, None)}
    made: dict[str, Any] = {x.format(name): images[part] for name, part in parts.items()}
    made |= {y.format(name): labels[part] for name, part in parts.items()}
    np.savez(stream, **{**made, **others})
    return stream.getvalue()


def tar(files: Files, folder: str = "cifar-10-batches-bin/", format: int = tarfile.GNU_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder}{name}")
            entry.size, entry.mtime = len(content), 1.5
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def write(path: Path, content: bytes | Files) -> Path:
    """A file, or a folder of files."""
    if isinstance(content, bytes):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    else:
        for name, inside in content.items():
            write(path / name, inside)
    return path


def load(path: Path, seed: int = 1, **settings: Any) -> ImageData:
    return Cifar10(path=str(path), **settings).load(seed)


def error_message(path: Path) -> str:
    """The error message, or an empty string if there is no error."""
    return refused(load, path)


def check_error(path: Path, expected: str) -> None:
    assert error_message(path) == expected


def summarise(image: np.ndarray, label: int) -> str:
    """A short form of a record, to keep pytest's output short."""
    return hashlib.sha256(record(image, label)).hexdigest()


def everything(data: ImageData) -> list[str]:
    """All records of training and validation, sorted, then those of the test split."""
    records = {
        name: [summarise(*pair) for pair in zip(split.pixels.numpy(), split.labels.tolist(), strict=True)]
        for name, split in data.splits.items()
    }
    return [*sorted(records["train"] + records["validation"]), *records.get("test", [])]


EXPECTED = [summarise(*pair) for pair in zip(IMAGES, LABELS, strict=True)]
EXPECTED = [*sorted(EXPECTED[:TRAIN]), *EXPECTED[TRAIN:]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bin", binary),
        ("bin/cifar-10-batches-bin", binary),
        *((f"py{protocol}", lambda protocol=protocol: pickled(protocol)) for protocol in range(6)),
        ("py/cifar-10-batches-py", lambda: pickled(2, str)),
        ("a.tar.gz", lambda: gzip.compress(tar(binary()))),
        ("a.TGZ", lambda: gzip.compress(tar(binary(), "./", tarfile.USTAR_FORMAT))),
        ("a.tar", lambda: tar(binary(), "", tarfile.PAX_FORMAT)),
        ("b.tar.gz", lambda: gzip.compress(tar(pickled(), f"{'deep/' * 30}", tarfile.USTAR_FORMAT))),
        ("a.npz", arrays),
        ("b.npz", lambda: arrays(last=False, column=True)),
        ("c.npz", lambda: arrays("{}_images", "{}_labels")),
        ("d.NPZ", lambda: arrays("X_{}", "Y_{}", unused=np.zeros(3))),
    ],
)
def test_every_format_gives_the_same_images(tmp_path: Path, name: str, content: Callable[[], Any]) -> None:
    given = content()
    whole = write(tmp_path / name, given)
    path = whole.parent if "/" in name else whole

    def check(path: Path) -> None:
        data = load(path)
        assert everything(data) == EXPECTED
        assert data.names == NAMES
        assert {split: len(images) for split, images in data.splits.items()} == {
            "train": TRAIN - 4,
            "validation": 4,
            "test": TEST,
        }
        assert data.digest == load(write(tmp_path / "plain", binary())).digest

    check(path)
    other = binary() | {"test_batch.bin": ONE * TEST}
    must_fail(check, write(tmp_path / "other", other))


def test_red_comes_first_then_green_then_blue_row_by_row(tmp_path: Path) -> None:
    record = bytes([3]) + bytes([200]) * 1_024 + bytes(range(32)) * 32 + bytes([7]) * 1_024
    data = load(write(tmp_path, {"data_batch_1.bin": record * 2}))
    for name in ("train", "validation"):
        images = data.splits[name]
        assert (images.pixels.shape, images.pixels.dtype) == ((1, 3, 32, 32), torch.uint8)
        assert (images.labels.tolist(), images.labels.dtype) == ([3], torch.int64)
        assert images.pixels[0, 0].unique().tolist() == [200]
        assert images.pixels[0, 1, 5].tolist() == list(range(32))
        assert images.pixels[0, 2].unique().tolist() == [7]


def test_the_seed_and_the_share_determine_what_is_held_out(tmp_path: Path) -> None:
    path = write(tmp_path, binary())

    def check(seed: int, share: float) -> None:
        one, other = load(path, 1, validation=0.3), load(path, seed, validation=share)
        assert one.digest == other.digest
        assert len(one.splits["validation"]) == round(0.3 * TRAIN)

    check(1, 0.3)
    must_fail(check, 2, 0.3)
    must_fail(check, 1, 0.2)


def test_an_invalid_share_is_an_error() -> None:
    for share in (0.0, 1.0, -0.5):
        with pytest.raises(WrongInput, match="validation is"):
            read(Cifar10, {"validation": share})
    assert read(Cifar10, {"validation": 0.5}).kind == "cifar10"


def test_notes_report_what_was_read(tmp_path: Path) -> None:
    assert load(write(tmp_path / "bin", binary())).notes == (
        "data_batch_1.bin to data_batch_5.bin: 39 images",
        "test_batch.bin: 17 images",
    )
    few = {name: content for name, content in pickled().items() if name[-1] in "12"}
    assert load(write(tmp_path / "py", few)).notes == (
        "data_batch_1 to data_batch_2 (2 of 5 batches): 18 images",
        "there are no test images, so there is no test split",
    )
    assert load(write(tmp_path / "a.npz", arrays())).notes == ("x_train: 39 images", "x_test: 17 images")
    many = {"data_batch_1.bin": ONE * 1_009}
    assert load(write(tmp_path / "many", many)).notes[0] == "data_batch_1.bin (1 of 5 batches): 1,009 images"


def test_without_test_images_there_is_no_test_split(tmp_path: Path) -> None:
    files = binary()
    del files["test_batch.bin"]
    few = write(tmp_path / "a.npz", arrays(y_test=LABELS[:0], x_test=IMAGES[:0]))
    assert list(load(write(tmp_path / "bin", files)).splits) == ["train", "validation"]
    assert list(load(write(tmp_path / "all", binary())).splits) == ["train", "validation", "test"]
    check_error(few, f"{few}/x_test and y_test: there are no images")


OTHERS = [f"class {i}" for i in range(10)]


def test_class_names_are_read_from_the_data_set(tmp_path: Path) -> None:
    text, meta = "\r\n".join(OTHERS).encode(), pickle.dumps({"label_names": OTHERS})
    assert load(write(tmp_path / "bin", binary() | {"batches.meta.txt": text})).names == tuple(OTHERS)
    assert load(write(tmp_path / "py", pickled() | {"batches.meta": meta})).names == tuple(OTHERS)
    for files, name in ((binary(), "batches.meta.txt"), (pickled(), "batches.meta")):
        del files[name]
        assert load(write(tmp_path / f"without {name}", files)).names == NAMES


NO_NAMES = "there is no list label_names"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (OTHERS[:9], "there are 9 names, 9 of them distinct; allowed: 10, all distinct"),
        ([*OTHERS, "x"], "there are 11 names, 11 of them distinct; allowed: 10, all distinct"),
        ([*OTHERS[:9], "class 0"], "there are 10 names, 9 of them distinct; allowed: 10, all distinct"),
        ([*OTHERS[:9], "a\tb"], "a name is 'a\\tb'; allowed: 1 to 50 printable characters"),
        ([*OTHERS[:9], "x" * 51], f"a name is '{'x' * 39}…'; allowed: 1 to 50 printable characters"),
        ([*OTHERS[:9], ""], "a name is ''; allowed: 1 to 50 printable characters"),
        ([*OTHERS[:9], 7], NO_NAMES),
        ("airplane", NO_NAMES),
        (None, NO_NAMES),
    ],
)
def test_invalid_class_names_are_an_error(tmp_path: Path, names: Any, expected: str) -> None:
    path = write(tmp_path, pickled() | {"batches.meta": pickle.dumps({b"label_names": names})})
    check_error(path, f"{path}/batches.meta: {expected}")
    must_fail(check_error, write(tmp_path, pickled()), f"{path}/batches.meta: {expected}")
    if expected[0].isdigit():
        other = write(tmp_path / "bin", binary() | {"batches.meta.txt": "\n".join(names).encode()})
        check_error(other, f"{other}/batches.meta.txt: {expected}")


def relabelled(content: bytes, record: int, label: int) -> bytes:
    at = (record - 1) * RECORD
    return content[:at] + bytes([label]) + content[at + 1 :]


CUT = "bytes; allowed: multiples of 3,073; the file is truncated or damaged"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("data_batch_2.bin", lambda content: content[:-1], f"the size is 33,802 {CUT}"),
        ("test_batch.bin", lambda content: content + b"\n", f"the size is 52,242 {CUT}"),
        ("data_batch_1.bin", lambda _: b"", "there are no images"),
        ("test_batch.bin", lambda _: b"", "there are no images"),
        ("data_batch_1.bin", lambda _: None, "the file is missing, but other batches exist"),
        ("data_batch_4.bin", lambda _: None, "the file is missing, but other batches exist"),
        (
            "data_batch_3.bin",
            lambda content: relabelled(content, 11, 10),
            "the label of record 11 is 10; allowed: 0 to 9",
        ),
        (
            "test_batch.bin",
            lambda content: relabelled(content, 1, 255),
            "the label of record 1 is 255; allowed: 0 to 9",
        ),
    ],
)
def test_the_error_for_an_invalid_batch_names_the_file(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes | None], expected: str, packed: bool
) -> None:
    changed = binary()
    content = change(changed.pop(name))
    changed |= {} if content is None else {name: content}

    def check(files: Files) -> None:
        given = gzip.compress(tar(files)) if packed else files
        path = write(tmp_path / ("a.tar.gz" if packed else f"folder {len(files[min(files)])}"), given)
        assert error_message(path) == f"{path}/{name}: {expected}"

    check(changed)
    for file in tmp_path.rglob("*.bin"):
        file.unlink()
    must_fail(check, binary())


NDARRAY = np.zeros((2, 3_072), np.uint8)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([NDARRAY, [1, 2]], "the pickle contains list; allowed: dict"),
        ({}, "the images are not an array of uint8"),
        ({"data": NDARRAY}, "a list or an array of 2 labels is needed, one per image"),
        ({"data": NDARRAY, "labels": [1]}, "a list or an array of 2 labels is needed, one per image"),
        ({"data": NDARRAY, "labels": (1, 2)}, "a list or an array of 2 labels is needed, one per image"),
        (
            {"data": NDARRAY, "labels": np.ones((2, 2), int)},
            "a list or an array of 2 labels is needed, one per image",
        ),
        ({"data": NDARRAY, "labels": np.array(3)}, "a list or an array of 2 labels is needed, one per image"),
        ({"data": NDARRAY, "labels": [1, -1]}, "the label of record 2 is -1; allowed: 0 to 9"),
        ({"data": NDARRAY, "labels": [10, 1]}, "the label of record 1 is 10; allowed: 0 to 9"),
        ({"data": NDARRAY, "labels": [1, 10**5_000]}, "the label of record 2 is int; allowed: 0 to 9"),
        ({"data": NDARRAY, "labels": [1, True]}, "the label of record 2 is bool; allowed: 0 to 9"),
        ({"data": NDARRAY, "labels": [1, "1"]}, "the label of record 2 is str; allowed: 0 to 9"),
        ({"data": NDARRAY, "labels": [1.0, 1]}, "the label of record 1 is float; allowed: 0 to 9"),
        ({"data": NDARRAY, "labels": np.ones(2)}, "the label of record 1 is float; allowed: 0 to 9"),
        ({"data": NDARRAY.astype("i8"), "labels": [1, 2]}, "the images are not an array of uint8"),
        ({"data": NDARRAY.tobytes(), "labels": [1, 2]}, "the images are not an array of uint8"),
        (
            {"data": NDARRAY[:, 1:], "labels": [1, 2]},
            "the shape of the images is (2, 3071); allowed: (N, 3072), (N, 3, 32, 32) or (N, 32, 32, 3)",
        ),
        (
            {"data": np.array(3, np.uint8), "labels": []},
            "the shape of the images is (); allowed: (N, 3072), (N, 3, 32, 32) or (N, 32, 32, 3)",
        ),
        ({"data": NDARRAY[:0], "labels": []}, "there are no images"),
    ],
)
def test_the_error_for_an_invalid_pickle_names_the_file(tmp_path: Path, value: Any, expected: str) -> None:
    path = write(tmp_path, {"data_batch_1": pickle.dumps(value)})
    check_error(path, f"{path}/data_batch_1: {expected}")
    write(path, {"data_batch_1": pickle.dumps({"data": NDARRAY, "labels": np.array([[1], [2]])})})
    must_fail(check_error, path, f"{path}/data_batch_1: {expected}")


class Attack:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_a_malicious_data_set_executes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    content = pickle.dumps({"data": Attack(mark), "labels": [1]})
    path = write(tmp_path / "py", {"data_batch_1": content})
    message = "which is not allowed; nothing was executed"
    check_error(path, f"{path}/data_batch_1: the pickle refers to 'posix mkdir', {message}")
    hostile = arrays(x_train=np.array([Attack(mark)], dtype=object))
    path = write(tmp_path / "a.npz", hostile)
    assert error_message(path).startswith(
        f"{path}/x_train: not an array of numbers: Object arrays cannot be loaded"
    )

    def check() -> None:
        assert not mark.exists()

    check()
    pickle.loads(content)
    must_fail(check)


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"") -> bytes:
    """One entry of a tar archive, without the end of the archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


END = bytes(1_024)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (
            entry("x/data_batch_1.bin", tarfile.SYMTYPE, "/etc/passwd"),
            "/data_batch_1.bin: a link instead of a file",
        ),
        (entry("x/test_batch.bin", tarfile.LNKTYPE, "x"), "/test_batch.bin: a link instead of a file"),
        (
            entry("../../evil.bin", content=b"evil"),
            f": the path '../../evil.bin' leads outside the archive; {FORMATS}",
        ),
        (
            entry("/tmp/evil.bin", content=b"evil"),
            f": the path '/tmp/evil.bin' leads outside the archive; {FORMATS}",
        ),
        (
            entry("cifar-10-batches-bin/data_batch_1.bin", content=b"evil"),
            "/data_batch_1.bin: the archive contains this file twice",
        ),
        (
            entry("other/data_batch_1.bin", content=b"evil"),
            ": both 'other' and 'cifar-10-batches-bin' contain batches; keep one of them",
        ),
        (
            entry("cifar-10-batches-bin/data_batch_1"),
            ": there are batches in the binary and in the Python format; keep one of them",
        ),
    ],
)
def test_malicious_archive_entries_are_errors_and_write_nothing(
    tmp_path: Path, first: bytes, expected: str
) -> None:
    path = write(tmp_path / "in" / "a.tar.gz", gzip.compress(first + tar(binary())))
    check_error(path, f"{path}{expected}")
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]
    harmless = (
        entry("x/", tarfile.DIRTYPE) + entry("x/fifo", tarfile.FIFOTYPE) + entry("x/._data_batch_1.bin")
    )
    write(path, gzip.compress(harmless + tar(binary())))
    must_fail(check_error, path, f"{path}{expected}")
    assert error_message(path) == ""


DAMAGED = "the archive is damaged"
AGAIN = "download or create it again"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tar.gz", lambda: tar(binary()), rf"{DAMAGED}: Not a gzipped file \(b'ci'\); {AGAIN}"),
        ("a.tar.gz", lambda: b"", f"{DAMAGED}: unexpected end of file; {AGAIN}"),
        ("a.tar.gz", lambda: gzip.compress(b""), f"{DAMAGED}: unexpected end of file; {AGAIN}"),
        (
            "a.tar.gz",
            lambda: gzip.compress(tar(binary()))[:-5],
            f"{DAMAGED}: Compressed file ended .*; {AGAIN}",
        ),
        (
            "a.tar.gz",
            lambda: gzip.compress(tar(binary()))[:-8] + bytes(8),
            f"{DAMAGED}: CRC check failed .*; {AGAIN}",
        ),
        ("a.tar", lambda: tar(binary())[:9_999], f"{DAMAGED}: unexpected end of file; {AGAIN}"),
        ("a.tar", lambda: b"x" * 1_024, f"{DAMAGED}: invalid tar header; {AGAIN}"),
        (
            "a.tar",
            lambda: tar(binary()).replace(b"data_batch_1", b"data_batch_9"),
            f"{DAMAGED}: wrong checksum of a tar header; {AGAIN}",
        ),
        (
            "a.tar.gz",
            lambda: gzip.compress(END),
            f"there is no data_batch_1.bin or data_batch_1; {FORMATS}",
        ),
        (
            "cifar-100.tar.gz",
            lambda: gzip.compress(tar({"train": b"", "test": b"", "meta": b""})),
            f"there is no data_batch_1.bin or data_batch_1; {FORMATS}",
        ),
        ("a.npz", lambda: b"garbage", f"{DAMAGED}: File is not a zip file; {AGAIN}"),
        ("a.npz", lambda: arrays()[:-99], f"{DAMAGED}: File is not a zip file; {AGAIN}"),
        (
            "a.npz",
            lambda: arrays(last=False).replace(IMAGES[-1].tobytes(), bytes(3_072)),
            f"{DAMAGED}: Bad CRC-32 for file 'x_test.npy'; {AGAIN}",
        ),
        (
            "a.npz",
            lambda: arrays().replace(b"y_test.npy", bytes([9] * 10), 1),
            rf"{DAMAGED}: File name in directory 'y_test.npy' and header b'(\\t){{10}}' differ.; {AGAIN}",
        ),
        ("data_batch_1.bin", lambda: ONE, f"the file type is not supported; {FORMATS}"),
        ("a.zip", lambda: b"PK", f"the file type is not supported; {FORMATS}"),
    ],
)
def test_a_damaged_archive_gives_a_one_line_error(
    tmp_path: Path, name: str, content: Callable[[], bytes], expected: str
) -> None:
    path = write(tmp_path / name, content())

    def check(path: Path) -> None:
        assert re.fullmatch(f"{re.escape(str(path))}: {expected}", error_message(path)), error_message(path)

    check(path)
    must_fail(check, write(tmp_path / "folder", binary()))


def test_an_archive_that_is_too_large_when_uncompressed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = f", and CIFAR-10 has fewer; {FORMATS}"
    bomb = gzip.compress(entry("x", content=bytes(300_000)) + tar(binary()))
    after = gzip.compress(tar(binary()) + bytes(300_000))
    zipped = arrays(more=np.zeros(300_000, np.uint8))
    forms: list[tuple[str, bytes | Files, bytes | Files]] = [
        ("a.tar.gz", bomb, gzip.compress(tar(binary()))),
        ("b.tar.gz", after, gzip.compress(tar(binary()))),
        ("c.npz", zipped, arrays()),
        ("d", binary() | {"test_batch.bin": ONE * 100}, binary()),
    ]
    monkeypatch.setattr(cifar10, "MOST_BYTES", 250_000)
    for name, wrong, right in forms:
        path = write(tmp_path / name, wrong)
        check_error(path, f"{path}: there are more than 250,000 bytes{message}")
        assert error_message(write(path, right)) == ""
    monkeypatch.setattr(cifar10, "MOST_ENTRIES", 11)
    path = write(tmp_path / "e.tar.gz", gzip.compress(entry("x") * 3 + tar(binary())))
    assert error_message(path) == ""
    write(path, gzip.compress(entry("x") * 4 + tar(binary())))
    check_error(path, f"{path}: there are more than 11 files{message}")


def test_an_entry_that_declares_a_huge_size_is_rejected_at_once(tmp_path: Path) -> None:
    huge = tarfile.TarInfo("data_batch_1.bin")
    huge.size = 8**11 - 1
    path = write(tmp_path / "a.tar.gz", gzip.compress(huge.tobuf(tarfile.USTAR_FORMAT) + END))
    assert error_message(path).startswith(f"{path}: there are more than 250,000,000 bytes")
    header = np.lib.format.magic(1, 0) + (118).to_bytes(2, "little")
    claim = b"{'descr': '|u1', 'fortran_order': False, 'shape': (10000000000000, 32, 32, 3), }"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x_train.npy", header + claim.ljust(117) + b"\n" + bytes(3_072))
        archive.writestr("y_train.npy", b"")
    path = write(tmp_path / "a.npz", stream.getvalue())
    assert error_message(path).startswith(f"{path}/x_train: not an array of numbers: ")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"x_train": IMAGES.astype(np.float32)},
            "/x_train and y_train: the images are not an array of uint8",
        ),
        (
            {"y_train": LABELS},
            "/x_train and y_train: a list or an array of 39 labels is needed, one per image",
        ),
        (
            {"y_test": np.full(TEST, 12)},
            "/x_test and y_test: the label of record 1 is 12; allowed: 0 to 9",
        ),
        (
            {"x_test": IMAGES[:TEST, :, 1:]},
            "/x_test and y_test: the shape of the images is (17, 3, 31, 32); "
            "allowed: (N, 3072), (N, 3, 32, 32) or (N, 32, 32, 3)",
        ),
    ],
)
def test_the_error_for_an_invalid_array_names_it(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    path = write(tmp_path / "a.npz", arrays(**changes))
    check_error(path, f"{path}{expected}")
    must_fail(check_error, write(path, arrays()), f"{path}{expected}")


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"x_train": IMAGES}, "y_train"),
        ({"x": IMAGES, "y": LABELS}, "x_train"),
        ({"train_images": IMAGES}, "train_labels"),
        ({"x_train": IMAGES, "y_train": LABELS, "y_test": LABELS}, "x_test"),
    ]
    for given, missing in cases:
        np.savez(tmp_path / "a.npz", **given)
        check_error(tmp_path / "a.npz", f"{tmp_path}/a.npz/{missing}: the array is missing; {FORMATS}")
    np.savez(tmp_path / "a.npz", x_train=IMAGES, y_train=LABELS)
    assert list(load(tmp_path / "a.npz").splits) == ["train", "validation"]


def test_an_ambiguous_folder_is_an_error(tmp_path: Path) -> None:
    check_error(tmp_path, f"{tmp_path}: there is no data_batch_1.bin or data_batch_1; {FORMATS}")
    write(tmp_path / "one", binary())
    assert error_message(tmp_path) == ""
    write(tmp_path / "two", pickled())
    check_error(tmp_path, f"{tmp_path}: both 'one' and 'two' contain batches; keep one of them")
    write(tmp_path / "one", pickled())
    check_error(
        tmp_path / "one",
        f"{tmp_path}/one: there are batches in the binary and in the Python format; keep one of them",
    )


def test_a_single_image_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, {"data_batch_1.bin": ONE})
    check_error(path, f"{path}: too few images (1): no image is left for the validation split")
    assert error_message(write(path, {"data_batch_1.bin": ONE * 2})) == ""


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    for name in ("a", "a.tar.gz", "a.npz", "b" * 3_000, "a\0b"):
        check_error(tmp_path / name, f"{tmp_path / name}: No such file or directory")
    must_fail(check_error, write(tmp_path / "a", binary()), f"{tmp_path / 'a'}: No such file or directory")


def test_without_a_path_the_cached_archive_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(tar(binary()))
    monkeypatch.setenv("LIMELIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(cifar10, "URL_SIZE", len(content))
    monkeypatch.setattr(cifar10, "URL_CHECKSUM", f"sha256:{hashlib.sha256(content).hexdigest()}")
    path = write(tmp_path / "cifar-10-binary.tar.gz", content)
    assert everything(Cifar10().load(1)) == EXPECTED
    write(path, content[:-1])
    with pytest.raises(WrongInput, match=f"{path}: the checksum is .*; delete the file to download it again"):
        Cifar10().load(1)


MARKS = (b"\0", b"\n", b"data_batch_1", b"cnumpy", b"PK", b"\x1f\x8b", b"K\x01", b"0000", b"shape")


def check_loads_or_refuses(path: Path, place: Path) -> bool:
    try:
        refused = error_message(path)
    except Exception as error:
        raise AssertionError(f"{path}: {error!r}") from error
    if refused:
        assert refused.startswith((f"{place}: ", f"{place}/")), refused
        assert len(refused) < len(str(place)) + 300
        assert "\n" not in refused
    return not refused


def check_mutations(folder: Path, count: int) -> None:
    draw = random.Random(23)
    # All of one class, so that one image can be held out.
    small = {
        name: content[:RECORD] * 2 if "batch_" in name else content for name, content in binary().items()
    }
    few = {"data": IMAGES[:3].reshape(3, -1), "labels": [1, 1, 1]}
    tiny = io.BytesIO()
    np.savez(tiny, x_train=IMAGES[:3], y_train=np.ones(3, dtype=np.uint8))
    whole: dict[str, bytes] = {
        "a.tar": tar(small),
        "b.tar.gz": gzip.compress(tar(small)),
        "c.npz": tiny.getvalue(),
        "py/data_batch_1": pickle.dumps(few, 2),
        "py/batches.meta": pickled()["batches.meta"],
        "bin/data_batch_1.bin": small["data_batch_1.bin"],
        "bin/batches.meta.txt": small["batches.meta.txt"],
    }
    for name, content in whole.items():
        write(folder / name, content)
    loaded = 0
    for _ in range(count):
        name = draw.choice(list(whole))
        path = write(folder / name, mutated(whole[name], MARKS, draw))
        place = path.parent if "/" in name else path
        loaded += check_loads_or_refuses(place, place)
        write(path, whole[name])
    assert count / 20 < loaded < count * 9 / 10, loaded  # the damage is neither too small nor too large


def test_a_damaged_data_set_is_either_loaded_or_gives_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 151)
    must_fail(check_loads_or_refuses, tmp_path / "a.txt", tmp_path / "b.txt")


@pytest.mark.torture
def test_ten_thousand_damaged_data_sets_are_either_loaded_or_give_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 10_000)
