"""Running text from files: what is found, what is refused, and how it is read in blocks."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import must_fail

from limelight.data.text import text_sources
from limelight.data.text.text_sources import Source, blocks, file_source, find_sources, scan, text_source
from limelight.errors import WrongInput

TEXT = "first line\nsecond é line\n\nthird 漢 line without an end"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_sources, "BLOCK", 13)


def whole(source: Source) -> str:
    return "".join(blocks(source, 0, scan(source).characters))


def names(found: dict[str, list[Source]]) -> dict[str, list[str]]:
    return {split: [Path(source.name).name for source in sources] for split, sources in found.items()}


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_blocks_have_the_whole_text_of_plain_and_compressed_files(ending: str, tmp_path: Path) -> None:
    text = TEXT + ending
    plain = write(tmp_path / "a.txt", text)
    packed = write(tmp_path / "a.txt.gz", gzip.compress(text.encode()))
    for source in (file_source(plain), file_source(packed), text_source("text", text)):
        assert whole(source) == text.replace("\r\n", "\n")
        assert scan(source).characters == len(text)
        assert scan(source).counts.sum() == len(text)
        assert scan(source).counts[ord("é")] == 1


def check_blocks_end_with_lines(found: Iterator[str]) -> None:
    *before, _ = found
    assert before
    assert all(block.endswith("\n") for block in before)


def test_blocks_end_with_a_line_where_possible() -> None:
    lines = text_source("text", "one\ntwo\n" * 9)
    check_blocks_end_with_lines(blocks(lines, 0, 72))
    no_lines = text_source("text", "x" * 67)
    assert "".join(blocks(no_lines, 0, 67)) == "x" * 67
    must_fail(check_blocks_end_with_lines, blocks(no_lines, 0, 67))


@pytest.mark.parametrize("start", [0, 1, 12, 13, 14, 40])
def test_a_part_of_a_text_begins_and_ends_at_its_characters(start: int) -> None:
    source = text_source("text", TEXT)
    for end in range(start, len(TEXT) + 1):
        assert "".join(blocks(source, start, end)) == TEXT[start:end]


def test_line_ends_of_windows_become_line_feeds_and_other_ones_stay() -> None:
    text = "a\r\nb\rc\u2028d\u0085e\n" * 7
    assert whole(text_source("text", text)) == text.replace("\r\n", "\n")
    assert whole(text_source("text", "\ufeffmark")) == "mark"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"line\ngood\nbad \xff byte", r"a.txt:3: byte 0xff at offset 14 is not UTF-8"),
        ("line\nUTF-16".encode("utf-16"), r"a.txt:1: byte 0xff at offset 0 is not UTF-8"),
        (b"x" * 29 + b"\n" + b"\0" * 31, r"a.txt:2: byte 0x00 at offset 30 is not UTF-8"),
        (b"cut \xe6\xbc", r"a.txt:1: byte 0xe6 at offset 4 is not UTF-8"),
        (b"0123456789ab\xe6\xbc!", r"a.txt:1: byte 0xe6 at offset 12 is not UTF-8"),
    ],
)
def test_what_is_not_utf8_is_refused_with_its_place(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=message):
        scan(file_source(write(tmp_path / "a.txt", content)))


def test_a_damaged_or_missing_file_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(np.random.default_rng(1).bytes(997).hex().encode())
    with pytest.raises(WrongInput, match=r"a.gz: the file cannot be read: .*end-of-stream"):
        scan(file_source(write(tmp_path / "a.gz", packed[:500])))
    with pytest.raises(WrongInput, match=r"a.gz: the file cannot be read: Not a gzipped file"):
        scan(file_source(write(tmp_path / "a.gz", b"plain")))
    with pytest.raises(WrongInput, match=r"none.txt: No such file"):
        file_source(tmp_path / "none.txt")


def test_a_folder_gives_its_text_files_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", "deep/c.txt.gz", "d.py", ".hidden.txt", ".git/e.txt", "f.png"):
        write(tmp_path / name, "text")
    assert names(find_sources(tmp_path, "")) == {"all": ["a.md", "b.txt", "c.txt.gz"]}
    assert names(find_sources(tmp_path, "**/*.py")) == {"all": ["d.py"]}
    assert names(find_sources(tmp_path / "b.txt", "")) == {"all": ["b.txt"]}


def test_files_named_after_splits_are_the_splits(tmp_path: Path) -> None:
    for name in ("train.txt", "valid.txt.gz", "other.txt"):
        write(tmp_path / name, "text")
    assert names(find_sources(tmp_path, "")) == {"train": ["train.txt"], "validation": ["valid.txt.gz"]}


def test_without_train_txt_the_other_files_are_the_training_split(tmp_path: Path) -> None:
    for name in ("a.txt", "valid.txt", "deep/b.txt"):
        write(tmp_path / name, "text")
    expected = {"train": ["a.txt", "b.txt"], "validation": ["valid.txt"]}
    assert names(find_sources(tmp_path, "")) == expected
    (tmp_path / "a.txt").unlink()
    (tmp_path / "deep" / "b.txt").unlink()
    assert names(find_sources(tmp_path, "")) == {"all": ["valid.txt"]}


@pytest.mark.parametrize("pattern", ["/etc/*", "a**b", "."])
def test_a_pattern_that_is_not_valid_is_refused(pattern: str, tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "text")
    with pytest.raises(WrongInput, match=r"task.data.pattern is '.*; allowed: a pattern relative to"):
        find_sources(tmp_path, pattern)


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.png", b"\x89PNG")
    with pytest.raises(WrongInput, match=r"the folder contains no text file with .txt"):
        find_sources(tmp_path, "")
    with pytest.raises(WrongInput, match=r"the folder contains no text file that matches '\*.rs'"):
        find_sources(tmp_path, "*.rs")
