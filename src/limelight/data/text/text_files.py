"""Read UTF-8 text files, plain or compressed (.gz, .zip). Only a line feed ends a line."""

import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile, ZipInfo

from limelight.data.paths import check_regular
from limelight.errors import WrongInput

COMPRESSED = (".gz", ".zip")
MOST_BYTES = 2_000_000_000  # of an uncompressed file; larger ones are malicious or need other tools
CHUNK = 2**20  # bytes
LONGEST_REASON = 200  # characters
# What the standard library raises for damaged archives.
DAMAGED = (OSError, EOFError, RuntimeError, ValueError, zlib.error, lzma.LZMAError, BadZipFile)
ENCRYPTED = 1  # flag bit of a zip entry


def read_text(path: Path) -> str:
    """Read a regular UTF-8 file."""
    check_regular(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise WrongInput(f"{path}: the file has more than {MOST_BYTES:,} bytes; use a smaller file")
        content = path.read_bytes()
    except OSError as error:
        raise WrongInput(f"{path}: {error.strerror}") from None
    return decode(content, str(path))


def decode(content: bytes, place: str) -> str:
    """Decode UTF-8 with or without a byte order mark; CR LF becomes LF. `place` names the file in errors."""
    at = content.find(0)
    if at < 0:
        try:
            return content.decode().removeprefix("\ufeff").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            at = error.start
    raise not_text(f"{place}:{content.count(10, 0, at) + 1}", content[at], at)


def not_text(location: str, byte: int, offset: int) -> WrongInput:
    """The exception for a file that is not UTF-8 text; the location is its name and line."""
    what = f"byte 0x{byte:02x} at offset {offset}"
    hint = "is it UTF-16 or Latin-1?"
    return WrongInput(f"{location}: {what} is not UTF-8 text ({hint}); save the file as UTF-8")


def read_lines(path: Path) -> tuple[str, list[str]]:
    """The name for error messages, and the lines, of a plain file, a .gz or the only text in a .zip."""
    if path.suffix.lower() in COMPRESSED:
        place, content = _decompress(path)
        text = decode(content, place)
    else:
        place, text = str(path), read_text(path)
    if not text.strip():
        raise WrongInput(f"{place}: the file is empty")
    return place, text.removesuffix("\n").split("\n")


def _decompress(path: Path) -> tuple[str, bytes]:
    """The name and content of the compressed file. Nothing is written to disk."""
    check_regular(path)
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                return str(path), _read_all(file.read, str(path))
        with ZipFile(path) as archive:
            entry = _find_text(archive, path)
            place = f"{path}/{PurePosixPath(entry.filename).name}"
            with archive.open(entry) as file:
                return place, _read_all(file.read, place)
    except WrongInput:
        raise
    except DAMAGED as error:
        if isinstance(error, OSError) and error.filename:  # the file cannot be opened
            raise WrongInput(f"{path}: {error.strerror}") from None
        reason = str(error)[:LONGEST_REASON] or "unexpected end of file"  # some messages quote the file
        raise WrongInput(f"{path}: the archive is damaged: {reason}; download or create it again") from None


def _find_text(archive: ZipFile, path: Path) -> ZipInfo:
    texts = [entry for entry in archive.infolist() if _is_text(entry.filename)]
    if not texts:
        raise WrongInput(f"{path}: the archive contains no .txt or .tsv file")
    if len(texts) > 1:
        names = " and ".join(entry.filename for entry in texts[:2])
        raise WrongInput(f"{path}: the archive contains both {names}; unpack it and pass one file")
    if texts[0].flag_bits & ENCRYPTED:
        raise WrongInput(f"{path}: the archive is protected by a password; unpack it and pass the file")
    return texts[0]


def _is_text(name: str) -> bool:
    """Whether an entry is a visible text file with a printable name."""
    *folders, last = PurePosixPath(name).parts or ("",)
    hidden = last.startswith((".", "_")) or "__MACOSX" in folders
    return not hidden and name.lower().endswith((".txt", ".tsv")) and name.isprintable()


def _read_all(read: Callable[[int], bytes], place: str) -> bytes:
    """Read to the end, up to a limit: the size that an archive declares is not trusted."""
    chunks, size = [], 0
    while chunk := read(CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise WrongInput(
                f"{place}: the uncompressed size is more than {MOST_BYTES:,} bytes; use a smaller file"
            )
    return b"".join(chunks)
