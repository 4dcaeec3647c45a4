"""Running text from files of any size: found, checked and read in blocks."""

import codecs
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from limelight.data.paths import check_regular
from limelight.data.splits import FILE_NAMES
from limelight.data.text.text_files import DAMAGED, not_text
from limelight.data.text.text_vocabulary import code_points
from limelight.errors import WrongInput, wrong
from limelight.progress import track

BLOCK = 2**20  # characters that are read and encoded at once
SUFFIXES = (".txt", ".text", ".md", ".rst")
CODE_POINTS = 0x110000


@dataclass(frozen=True)
class Source:
    """A file, or a text in memory."""

    name: str
    open: Callable[[], io.IOBase]
    size: int  # bytes, compressed if the file is


@dataclass(frozen=True)
class Scan:
    """What one pass over a source finds."""

    characters: int
    counts: np.ndarray  # occurrences of each code point


def find_sources(path: Path, pattern: str) -> dict[str, list[Source]]:
    """The sources of each split in a file or folder; "all" if the splits have no files of their own.

    In a folder, files that are named after splits (train.txt, valid.txt) are the splits; without train.txt,
    all other files are the training split. A folder without such names has only one split, which consists of
    all files in it and in its subfolders that match the pattern. An empty pattern means text files.
    """
    check_regular(path)
    if not path.is_dir():
        return {"all": [file_source(path)]}
    files = [file for file in _matching(path, pattern or "**/*") if file.is_file() and _visible(file, path)]
    files = files if pattern else [file for file in files if _is_text(file)]
    if not files:
        kinds = f"that matches {pattern!r}" if pattern else f"with {', '.join(SUFFIXES)} or .gz"
        raise WrongInput(f"{path}: the folder contains no text file {kinds}")
    named = {
        split: [file for file in files if file.parent == path and file.name.split(".")[0] in names]
        for split, names in FILE_NAMES.items()
    }
    others = [file for file in files if not any(file in found for found in named.values())]
    named["train"] = named["train"] or others
    is_split = named["train"] and named["train"] != files
    of_split = {split: found for split, found in named.items() if found} if is_split else {"all": files}
    return {split: list(map(file_source, found)) for split, found in of_split.items()}


def _matching(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except (ValueError, NotImplementedError, IndexError) as error:
        allowed = "a pattern relative to the folder, such as **/*.py"
        raise wrong("task.data.pattern", f"{pattern!r} ({error})", allowed) from None


def _visible(file: Path, folder: Path) -> bool:
    return not any(part.startswith((".", "__MACOSX")) for part in file.relative_to(folder).parts)


def _is_text(file: Path) -> bool:
    """Whether the name is that of a text file: notes.txt, notes.txt.gz, notes.gz."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    return bool(suffixes) and suffixes[-1] in (*SUFFIXES, ".gz")


def file_source(path: Path) -> Source:
    """A file, which may be compressed."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise WrongInput(f"{path}: {error.strerror}") from None
    is_compressed = path.suffix.lower() == ".gz"
    return Source(str(path), partial(gzip.GzipFile if is_compressed else io.FileIO, path), size)


def text_source(name: str, text: str) -> Source:
    """A text in memory."""
    content = text.encode()
    return Source(name, partial(io.BytesIO, content), len(content))


def scan(source: Source) -> Scan:
    """Count the characters of a source; anything that is not UTF-8 text is refused, with its place."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    counts, characters = np.zeros(CODE_POINTS, np.int64), 0
    lines, offset = 1, 0
    with _opened(source) as file:
        for content in track(iter(partial(file.read, BLOCK), b""), max(1, source.size // BLOCK)):
            seen = offset + len(content)
            try:
                text = decoder.decode(content)
            except UnicodeDecodeError as error:
                before = error.object.count(10, 0, error.start)
                place = seen - len(error.object) + error.start
                raise not_text(f"{source.name}:{lines + before}", error.object[error.start], place) from None
            if (at := content.find(0)) >= 0:
                raise not_text(f"{source.name}:{lines + content.count(10, 0, at)}", 0, offset + at)
            lines, offset = lines + content.count(10), seen
            characters += len(text)
            if text:
                found = np.bincount(code_points(text))
                counts[: len(found)] += found
        if rest := decoder.getstate()[0]:
            raise not_text(f"{source.name}:{lines}", rest[0], offset - len(rest))
    return Scan(characters, counts)


def blocks(source: Source, start: int, end: int) -> Iterator[str]:
    """The text from character `start` to `end`, in blocks that end with a line where possible.

    CR LF becomes LF; positions count both.
    """
    with _opened(source) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        skipped = 0
        while skipped < start and (piece := text.read(min(BLOCK, start - skipped))):
            skipped += len(piece)
        rest, left = "", end - start
        while left > 0 and (piece := text.read(min(BLOCK, left))):
            left -= len(piece)
            rest += piece
            at = rest.rfind("\n") + 1 or (0 if rest.endswith("\r") else len(rest))
            if at:
                yield rest[:at].replace("\r\n", "\n")
            rest = rest[at:]
        if rest:
            yield rest.replace("\r\n", "\n")


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    """The open source; errors of the file and of its compression are `WrongInput`."""
    try:
        with source.open() as file:
            yield cast(BinaryIO, file)
    except WrongInput:
        raise
    except DAMAGED as error:
        reason = getattr(error, "strerror", None) or str(error) or "unexpected end of file"
        raise WrongInput(f"{source.name}: the file cannot be read: {reason}") from None
