"""Token ids of a corpus in one file: written once, block by block, and mapped into memory when it is read."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from pydantic import Field

from limelight.config import Config
from limelight.data.text.text_readers import TextReader
from limelight.data.text.text_sources import BLOCK, Source, blocks
from limelight.data.text.text_vocabulary import TextVocabulary
from limelight.progress import track
from limelight.systems import close_to_rename, try_lock

SAVE_EVERY = 16  # blocks after which an unfinished file can be continued
WAIT = 0.5  # seconds between looks at a file that another process writes


@dataclass(frozen=True)
class Part:
    """The characters of a source from `start` to `end`, which belong to one split."""

    split: str
    source: Source
    start: int
    end: int

    @property
    def count(self) -> int:
        """The approximate number of blocks, for a progress bar."""
        return -(-(self.end - self.start) // BLOCK)


class Counts(Config):
    """The size of one split."""

    tokens: int = Field(0, ge=0, description="number of tokens")
    characters: int = Field(0, ge=0, description="number of characters, without separators")
    ends: int = Field(0, ge=0, description="number of documents that are followed by another one")
    unknown: int = Field(0, ge=0, description="number of tokens that are not in the vocabulary")


class TokenEntry(Config):
    """Description of a file of tokens, complete or not. The splits follow one another."""

    reader: TextReader = Field(description="the vocabulary")
    blocks: int = Field(0, ge=0, description="number of blocks that are encoded")
    splits: dict[str, Counts] = Field({}, description="the sizes of the splits, in order")
    sha256: str = Field("", description="checksum of the tokens; empty if the file is not complete")

    @property
    def total(self) -> int:
        """Number of tokens."""
        return sum(one.tokens for one in self.splits.values())


@dataclass(frozen=True)
class Tokens:
    """The token ids of a corpus, in memory or in a file."""

    entry: TokenEntry
    path: Path | None = None
    values: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The tokens at these positions.

        A file is mapped anew for each call: otherwise all of its pages stay in memory once they are read.
        """
        if self.path is None:
            return self.values[positions]
        return np.memmap(self.path, dtype_of(self.entry.reader), "r")[positions]


def dtype_of(reader: TextVocabulary) -> np.dtype:
    """The smallest type that holds all ids."""
    return np.dtype(np.min_scalar_type(reader.size - 1)).newbyteorder("<")


def encode_blocks(
    parts: list[Part], reader: TextVocabulary, separator: str
) -> Iterator[tuple[str, int, np.ndarray]]:
    """For each block, its split, number of characters, and tokens.

    A token ends each document except the last of a split: a document is a source, or a part of it between
    two separators.
    """
    dtype = dtype_of(reader)
    end = np.array([reader.end], dtype)
    for before, part in zip([None, *parts], parts, strict=False):
        first = before is None or before.split != part.split
        for number, text in enumerate(blocks(part.source, part.start, part.end)):
            documents = text.split(separator) if separator else [text]
            encoded = [] if first or number else [end]
            for place, document in enumerate(documents):
                encoded += [end] if place else []
                encoded += [reader.encode_text(document).astype(dtype)] if document else []
            yield part.split, sum(map(len, documents)), np.concatenate(encoded or [end[:0]])


def tokens_in_memory(parts: list[Part], reader: TextReader, separator: str) -> Tokens:
    """All tokens of a small corpus."""
    entry, encoded = TokenEntry(reader=reader), []
    for split, characters, tokens in _tracked(parts, encode_blocks(parts, reader, separator)):
        entry = _add(entry, split, characters, tokens)
        encoded.append(tokens)
    values = np.concatenate(encoded)
    checksum = hashlib.sha256(values.data).hexdigest()
    return Tokens(entry.model_copy(update={"sha256": checksum}), values=values)


def read_tokens(path: Path) -> Tokens | None:
    """The complete file of tokens at this path; None if it is missing, unfinished or damaged."""
    entry = _read_entry(path)
    try:
        fits = entry is not None and os.path.getsize(path) == entry.total * dtype_of(entry.reader).itemsize
        if entry is None or not entry.sha256 or not fits or _checksum(path) != entry.sha256:
            return None
    except OSError:
        return None
    return Tokens(entry, path)


def write_tokens(path: Path, parts: list[Part], reader: TextReader, separator: str) -> None:
    """Encode a corpus into a file; a process that was killed is continued after its last saved block."""
    with path.with_suffix(".part").open("a+b") as file:
        entry = _read_entry(path.with_suffix(".part")) or TokenEntry(reader=reader)
        if entry.reader != reader or entry.total * dtype_of(reader).itemsize > file.seek(0, os.SEEK_END):
            entry = TokenEntry(reader=reader)
        file.truncate(entry.total * dtype_of(reader).itemsize)
        found = islice(encode_blocks(parts, reader, separator), entry.blocks, None)
        for split, characters, tokens in _tracked(parts, found, entry.blocks):
            file.write(tokens.data)
            entry = _add(entry, split, characters, tokens)
            if entry.blocks % SAVE_EVERY == 0:
                _save(file, path.with_suffix(".part"), entry)
        file.flush()
        os.fsync(file.fileno())
        checksum = _checksum(path.with_suffix(".part"))
        close_to_rename(file)
        os.replace(path.with_suffix(".part"), path)
    _write_entry(path, entry.model_copy(update={"sha256": checksum}))
    with suppress(OSError):
        _about(path.with_suffix(".part")).unlink()


@contextmanager
def one_writer(path: Path) -> Iterator[None]:
    """Wait until no other process writes this file."""
    with path.with_suffix(".lock").open("a+b") as lock:
        while not try_lock(lock):
            time.sleep(WAIT)
        yield


def _tracked(
    parts: list[Part], found: Iterator[tuple[str, int, np.ndarray]], done: int = 0
) -> Iterator[tuple[str, int, np.ndarray]]:
    return track(found, max(1, sum(part.count for part in parts) - done))


def _add(entry: TokenEntry, split: str, characters: int, tokens: np.ndarray) -> TokenEntry:
    before = entry.splits.get(split, Counts())
    now = Counts(
        tokens=before.tokens + len(tokens),
        characters=before.characters + characters,
        ends=before.ends + int(np.count_nonzero(tokens == entry.reader.end)),
        unknown=before.unknown + int(np.count_nonzero(tokens == entry.reader.unknown)),
    )
    return entry.model_copy(update={"blocks": entry.blocks + 1, "splits": entry.splits | {split: now}})


def _save(file: BinaryIO, path: Path, entry: TokenEntry) -> None:
    file.flush()
    os.fsync(file.fileno())
    _write_entry(path, entry)


def _about(path: Path) -> Path:
    return path.with_suffix(f"{path.suffix}.json")


def _write_entry(path: Path, entry: TokenEntry) -> None:
    temporary = _about(path).with_suffix(".tmp")
    temporary.write_text(entry.model_dump_json(), "utf-8")
    os.replace(temporary, _about(path))


def _read_entry(path: Path) -> TokenEntry | None:
    try:
        return TokenEntry.model_validate_json(_about(path).read_bytes())
    except (OSError, ValueError):
        return None


def _checksum(path: Path) -> str:
    result = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in track(iter(partial(file.read, BLOCK), b""), max(1, path.stat().st_size // BLOCK)):
            result.update(chunk)
    return result.hexdigest()
