"""Folders of images: splits, errors and the cache."""

import os
import resource
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from drawn import WHOLE, noise, png, save, tensor
from PIL import Image
from support import must_fail, refused
from torch import Tensor

from limelight.config import read
from limelight.data.images.image_data import ImageData
from limelight.data.images.image_folder import ImageFiles
from limelight.errors import WrongInput
from limelight.progress import shown_by

Color = tuple[int, ...]
RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)
SKIP = "; fix it, or skip such files: --set task.data.broken=skip"


NAMES = ("cat", "dog", "eel")
COUNTS = (11, 7, 5)
SIZE = 7


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "of images"
    monkeypatch.setenv("LIMELIGHT_CACHE", str(folder))
    return folder


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_classes(folder: Path, seed: int = 0, names: tuple[str, ...] = NAMES) -> list[tuple[str, Tensor]]:
    """The files that are created, in order."""
    written = []
    for label, (name, count) in enumerate(zip(names, COUNTS, strict=False)):
        for number in range(count):
            image = noise(SIZE, SIZE, seed=1_000 * seed + 100 * label + number)
            write(folder / name / f"{number:02}.png", save(image))
            written.append((name, tensor(image)))
    return written


def load(path: Path, seed: int = 1, **settings: Any) -> ImageData:
    return ImageFiles(path=str(path), **{"size": SIZE, **settings}).load(seed)


def error_message(path: Path, **settings: Any) -> str:
    """The error message, or an empty string if there is no error."""
    return refused(load, path, **settings)


def check_error(path: Path, expected: str) -> None:
    assert error_message(path) == expected


def pairs(data: ImageData, *splits: str) -> list[tuple[str, Tensor]]:
    chosen = [data.splits[name] for name in splits or data.splits]
    return [
        (data.names[label], pixels)
        for images in chosen
        for label, pixels in zip(images.labels.tolist(), images.pixels, strict=True)
    ]


def same(found: list[tuple[str, Tensor]], expected: list[tuple[str, Tensor]]) -> bool:
    return [(name, pixels.tolist()) for name, pixels in found] == [
        (name, pixels.tolist()) for name, pixels in expected
    ]


def anyhow(items: list[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    return sorted(items, key=lambda item: (item[0], item[1].tolist()))


def sizes(data: ImageData) -> dict[str, int]:
    return {name: len(images) for name, images in data.splits.items()}


def test_every_image_of_a_class_folder_is_in_exactly_one_split(tmp_path: Path) -> None:
    written = write_classes(tmp_path / "pets")

    def check(seed: int, written: list[tuple[str, Tensor]]) -> None:
        data = load(tmp_path / "pets", seed)
        assert data.names == NAMES
        assert sizes(data) == {"train": 19, "validation": 2, "test": 2}
        assert same(anyhow(pairs(data)), anyhow(written))
        assert data.notes == ("pets: 23 images kept, 0 files dropped",)

    check(1, written)
    must_fail(check, 1, [("dog", pixels) for _, pixels in written])
    assert load(tmp_path / "pets", 1).digest == load(tmp_path / "pets", 1).digest
    assert load(tmp_path / "pets", 1).digest != load(tmp_path / "pets", 2).digest


@pytest.mark.parametrize("dev", ["dev", "valid", "val", "validation", "Val"])
def test_split_folders_define_the_splits(tmp_path: Path, dev: str) -> None:
    written = {"train": write_classes(tmp_path / "train"), "validation": write_classes(tmp_path / dev, 1)}

    def check(written: dict[str, list[tuple[str, Tensor]]]) -> None:
        data = load(tmp_path)
        assert list(data.splits) == list(written)
        assert all(same(pairs(data, name), items) for name, items in written.items())

    check(written)
    written["test"] = write_classes(tmp_path / "test", 2, NAMES[:2])
    must_fail(check, {**written, "test": written["test"][1:]})
    check(written)
    assert load(tmp_path).notes == (
        "train: 23 images kept, 0 files dropped",
        f"{dev}: 23 images kept, 0 files dropped",
        "test: 18 images kept, 0 files dropped",
        "unused folders: 'cache'",
    )


def test_without_a_dev_folder_validation_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "pets"
    train = write_classes(path / "train")
    test = write_classes(path / "test", 2)
    data = load(path)
    assert sizes(data) == {"train": 21, "validation": 2, "test": 23}
    assert same(anyhow(pairs(data, "train", "validation")), anyhow(train))
    assert same(pairs(data, "test"), test)
    assert sizes(load(path / "train", test=0.0)) == {"train": 21, "validation": 2}


def test_a_class_may_be_named_train(tmp_path: Path) -> None:
    path = tmp_path / "vehicles"
    written = write_classes(path, names=("car", "test", "train"))
    data = load(path)
    assert data.names == ("car", "test", "train")
    assert same(anyhow(pairs(data)), anyhow(written))


def test_images_of_any_size_and_mode_are_decoded(tmp_path: Path) -> None:
    contents = [save(noise(13, 29), form, **options) for form, options in WHOLE]
    contents += [save(noise(5, 11).convert(mode)) for mode in ("1", "L", "LA", "P", "RGBA", "I;16")]
    for number, content in enumerate(contents):
        write(tmp_path / "pets" / NAMES[number % 2] / f"{number}.JPeG", content)
    data = load(tmp_path / "pets")
    assert sum(sizes(data).values()) == len(contents)
    assert data.splits["train"].pixels.shape[1:] == (3, SIZE, SIZE)
    plain = load(tmp_path / "pets", color=False, size=11)
    assert plain.splits["train"].pixels.shape[1:] == (1, 11, 11)


def test_nested_folders_of_a_class_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/1/x.png", "a.png", "B.png", "c/d/e/f.png"):
        write(tmp_path / "train" / "cat" / name, save(Image.new("RGB", (7, 7), (len(name), 0, 0))))
    write_classes(tmp_path / "train", names=("ant", "dog"))
    write_classes(tmp_path / "val")
    (tmp_path / "val" / "eel").rename(tmp_path / "val" / "ant")
    found = [int(pixels[0, 0, 0]) for name, pixels in pairs(load(tmp_path), "train") if name == "cat"]
    assert found == [len(name) for name in ("B.png", "a.png", "b/1/x.png", "b/2.png", "c/d/e/f.png")]


def test_files_other_than_images_are_counted_and_hidden_files_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "pets"
    written = write_classes(path)

    def check() -> None:
        data = load(path)
        assert same(anyhow(pairs(data)), anyhow(written))
        assert data.notes == (
            "pets: 23 images kept, 4 files dropped (1 outside class folders, 3 without an image suffix)",
        )

    must_fail(check)
    for name in ("README.md", "cat/labels.csv", "cat/more/noise.npy", "dog/png"):
        write(path / name, b"no image")
    for name in (".hidden.png", "cat/.hidden.png", ".git/a.png", "cat/.more/a.png", "__MACOSX/cat/a.png"):
        write(path / name, b"no image")
    check()


def test_a_broken_file_is_an_error_or_is_skipped_and_named(tmp_path: Path) -> None:
    path = tmp_path / "pets"
    written = write_classes(path)
    whole = (path / "cat" / "00.png").read_bytes()
    empty, cut = write(path / "cat" / "01.5.png", b""), write(path / "dog" / "06.5.png", whole[:-31])
    os.mkfifo(path / "eel" / "pipe.png")
    (path / "eel" / "\x07link.png").symlink_to(path / "nowhere")
    check_error(path, f"{empty}: the file is empty{SKIP}")

    def check(broken: int) -> None:
        data = load(path, broken="skip")
        assert same(anyhow(pairs(data)), anyhow(written))
        assert data.notes == (
            f"pets: 23 images kept, {broken} files dropped ({broken} broken)",
            f"skipped: {empty}: the file is empty",
            f"skipped: {cut}: the image is damaged: image file is truncated",
            f"skipped: '{path}/eel/\\x07link.png': not a file, or a broken link",
            f"skipped: {path / 'eel' / 'pipe.png'}: not a file, or a broken link",
        )

    check(4)
    check(4)  # from the cache
    must_fail(check, 3)
    check_error(path, f"{empty}: the file is empty{SKIP}")  # although the other images are cached
    empty.unlink()
    check_error(path, f"{cut}: the image is damaged: image file is truncated{SKIP}")


def test_a_class_with_only_broken_images_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    for image in (path / "eel").iterdir():
        image.write_bytes(b"broken")
    assert error_message(path, broken="skip") == f"{path / 'eel'}: the folder contains no readable image"
    for image in path.rglob("*.png"):
        image.write_bytes(b"broken")
    assert error_message(path, broken="skip") == f"{path}: the folder contains no readable image"


def test_many_broken_files_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    for number in range(37):
        write(path / "dog" / f"x{number}.gif", b"")
    notes = load(path, broken="skip").notes
    assert notes[0] == "pets: 23 images kept, 37 files dropped (37 broken)"
    assert len(notes) == 32
    assert notes[-1] == "skipped: 7 more"


def test_run_folders_are_not_classes(tmp_path: Path) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    for run in ("runs/images", "zebra"):
        write(path / run / "experiment.toml", b"")
        write(path / run / "attention.png", save(noise(SIZE, SIZE)))
    data = load(path)
    assert data.names == NAMES
    assert "unused folders: 'runs', 'zebra'" in data.notes


def test_the_folder_above_the_right_one_gets_a_hint(tmp_path: Path) -> None:
    write_classes(tmp_path / "all" / "pets")
    write(tmp_path / "all" / "runs" / "images" / "experiment.toml", b"")
    there = tmp_path / "all"
    only = f"{there}: at least two class folders are needed; there is only 'pets'"
    check_error(there, f"{only}; did you mean {there / 'pets'}?")


Spoil = Callable[[Path], Any]
SPOILED: list[tuple[str, Spoil, str]] = [
    (
        "one class",
        lambda path: [(path / name).rename(path / f".{name}") for name in NAMES[1:]],
        "{path}: at least two class folders are needed; there is only 'cat'",
    ),
    (
        "no class",
        lambda path: [(path / name).rename(path / f".{name}") for name in NAMES],
        "{path}: at least two class folders are needed; there is none",
    ),
    (
        "an empty class",
        lambda path: (path / "ant").mkdir(),
        "{path}/ant: the folder contains no readable image",
    ),
    (
        "a class of texts",
        lambda path: write(path / "ant" / "a.txt", b"ant"),
        "{path}/ant: the folder contains no readable image",
    ),
    (
        "no training",
        lambda path: write_classes(path / "test"),
        "{path}: there is a test folder but no train folder with class folders",
    ),
    (
        "a name",
        lambda path: write(path / "bad\nname" / "a.png", b""),
        "{path}: the name 'bad\\nname' contains unprintable characters; rename it",
    ),
    (
        "a name of bytes",
        lambda path: write(path / os.fsdecode(b"\xff") / "a.png", b""),
        "{path}: the name '\\udcff' contains unprintable characters; rename it",
    ),
    (
        "a link back",
        lambda path: (path / "eel" / "up").symlink_to(path),
        "{path}/eel"
        + "/up/eel" * 10
        + "/up: more than 20 nested folders; is there a link to a parent folder?",
    ),
]


@pytest.mark.parametrize(
    ("spoil", "expected"), [case[1:] for case in SPOILED], ids=[case[0] for case in SPOILED]
)
def test_a_folder_without_valid_classes_is_an_error(tmp_path: Path, spoil: Spoil, expected: str) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    assert error_message(path) == ""
    spoil(path)
    check_error(path, expected.format(path=path))


def test_a_class_that_does_not_occur_in_training_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pets"
    write_classes(path / "train")
    write_classes(path / "val")
    write_classes(path / "test")
    assert error_message(path) == ""
    (path / "test" / "eel").rename(path / "test" / "fox")
    check_error(path, f"{path}/test/fox: training has no such class; there are: cat, dog, eel")
    (path / "test" / "fox").rename(path / "test" / "eel")
    write_classes(path / "dev")
    check_error(path, f"{path}: both dev and val exist; keep one of them")


def test_a_path_that_is_not_a_folder_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path / "a.png", save(noise()))
    check_error(file, f"{file}: not a folder; pass the folder that contains it")
    check_error(tmp_path / "b", f"{tmp_path / 'b'}: No such file or directory")
    check_error(Path("x" * 999), f"{'x' * 999}: No such file or directory")
    with pytest.raises(WrongInput, match=r"task\.data\.path is empty; pass a folder with --data"):
        ImageFiles().load(1)
    with pytest.raises(WrongInput, match="validation \\+ test is 1; allowed: less than 1"):
        read(ImageFiles, {"validation": 0.5, "test": 0.5})


def test_too_few_images_are_an_error(tmp_path: Path) -> None:
    for name in NAMES[:2]:
        write(tmp_path / "pets" / name / "a.png", save(noise()))
    check_error(
        tmp_path / "pets",
        f"{tmp_path / 'pets'}: too few images (2): no image is left for the validation split",
    )


# The cache.


@contextmanager
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("an image was decoded")

    with monkeypatch.context() as patch:
        patch.setattr(Image, "open", fail)
        yield


def state(cache: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in sorted(cache.iterdir())}


def check_hit(path: Path, monkeypatch: pytest.MonkeyPatch, digest: str, **settings: Any) -> None:
    """While Pillow is disabled, decoding any image is an error."""
    with no_decoding(monkeypatch):
        assert error_message(path, **settings) == ""
        assert load(path, **settings).digest == digest


def test_images_are_decoded_only_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    digest = load(path).digest
    before = state(cache)
    assert [name.split(".")[1] for name in before] == ["json", "pixels"]
    check_hit(path, monkeypatch, digest)
    assert state(cache) == before
    for settings in ({"size": 5}, {"color": False}):
        must_fail(partial(check_hit, **settings), path, monkeypatch, digest)
    path.rename(tmp_path / "moved")
    check_hit(tmp_path / "moved", monkeypatch, digest)


def test_the_digest_is_the_same_with_and_without_a_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pets"
    write_classes(path / "train")
    write_classes(path / "val", 1)
    first, second = load(path), load(path)
    write(tmp_path / "file", b"")
    monkeypatch.setenv("LIMELIGHT_CACHE", str(tmp_path / "file" / "cache"))
    third = load(path)
    assert first.digest == second.digest == third.digest
    assert third.notes == (
        *first.notes,
        f"no cache: {tmp_path / 'file' / 'cache'}: Not a directory; images are decoded again in each run",
    )
    write(path / "train" / "cat" / "00.png", save(noise(SIZE, SIZE, seed=999)))
    assert load(path).digest != first.digest


def change(path: Path) -> None:
    """Change pixels without changing the size and the modification time."""
    content, status = path.read_bytes(), path.stat()
    pixels = zlib.compress(bytes(22 * SIZE), 0)
    path.write_bytes(png(SIZE, SIZE, pixels).ljust(len(content), b"\0"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "alter",
    [
        change,
        Path.unlink,
        lambda path: path.rename(path.with_name("99.png")),
        lambda path: path.rename(path.parent.parent / "dog" / "99.png"),
        lambda path: write(path.with_name("98.png"), save(noise())),
        lambda path: os.utime(path, (1, 1)),
    ],
)
def test_any_change_causes_images_to_be_decoded_again(
    tmp_path: Path, alter: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    digest = load(path).digest
    check_hit(path, monkeypatch, digest)
    alter(path / "cat" / "07.png")
    must_fail(check_hit, path, monkeypatch, digest)
    changed = load(path).digest
    check_hit(path, monkeypatch, changed)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("suffix", ["json", "pixels"])
@pytest.mark.parametrize(
    "damage",
    [
        flip,
        Path.unlink,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        lambda path: path.write_bytes(b'{"images": 10000000000000000000000, "broken": [], "sha256": ""}'),
        lambda path: path.write_bytes(b'{"images": 22, "broken": [99], "sha256": ""}'),
        lambda path: path.write_bytes(b"[" * 100_000),
    ],
)
def test_a_damaged_cache_is_rebuilt(
    tmp_path: Path,
    cache: Path,
    damage: Callable[[Path], Any],
    suffix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    digest = load(path).digest
    damage(next(cache.glob(f"*.{suffix}")))
    must_fail(check_hit, path, monkeypatch, digest)
    assert load(path).digest == digest
    check_hit(path, monkeypatch, digest)


def test_with_a_full_disk_there_is_no_cache(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "pets"
    written = write_classes(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_001, limits[1]))
    try:
        data = load(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert same(anyhow(pairs(data)), anyhow(written))
    assert data.notes[1:] == (f"no cache: {cache}: File too large; images are decoded again in each run",)
    assert list(cache.iterdir()) == []
    assert load(path).digest == data.digest
    assert len(list(cache.iterdir())) == 2


def test_no_temporary_files_remain(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "pets"
    write_classes(path)
    old, new = write(cache / ".tmp-old", b"killed"), write(cache / ".tmp-new", b"at work")
    os.utime(old, (1, 1))
    write(path / "eel" / "zzz.png", b"")
    assert error_message(path) == f"{path / 'eel' / 'zzz.png'}: the file is empty{SKIP}"
    assert list(cache.iterdir()) == [new]


def test_changing_pixels_in_memory_does_not_change_the_cache(tmp_path: Path) -> None:
    write_classes(tmp_path / "train")
    write_classes(tmp_path / "val")
    digest = load(tmp_path).digest
    load(tmp_path).splits["train"].pixels.fill_(0)
    assert load(tmp_path).digest == digest


def test_the_cache_is_in_the_cache_folder_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_classes(tmp_path / "pets")
    monkeypatch.setenv("LIMELIGHT_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    load(tmp_path / "pets")
    assert len(list((tmp_path / "xdg" / "limelight").iterdir())) == 2
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    load(tmp_path / "pets")
    assert len(list((tmp_path / "home" / ".cache" / "limelight").iterdir())) == 2


def test_progress_is_reported_while_images_are_decoded(tmp_path: Path) -> None:
    write_classes(tmp_path / "train")
    write_classes(tmp_path / "val")
    write_classes(tmp_path / "test")
    progress: list[tuple[int, int]] = []
    config = ImageFiles(path=str(tmp_path), size=SIZE)
    with shown_by(lambda done, total: progress.append((done, total))):
        config.load(1)
        assert progress == [(done, 69) for done in range(70)]
        config.load(1)  # from the cache
    assert len(progress) == 70
