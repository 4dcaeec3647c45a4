"""The text of a user's file, plain or packed. It is UTF-8, and its lines end with a line feed alone."""

import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile, ZipInfo

from limelight.data.paths import check_regular
from limelight.errors import WrongInput

PACKED = (".gz", ".zip")
MOST_BYTES = 2_000_000_000  # of a file, unpacked: beyond them it is a trap, or needs other tools
PIECE = 2**20
LONGEST_REASON = 200  # characters
# What the standard library raises on damaged archives.
DAMAGE = (OSError, EOFError, RuntimeError, ValueError, zlib.error, lzma.LZMAError, BadZipFile)
PASSWORD = 1  # the bit of a zip entry that says so


def read_text(path: Path) -> str:
    """The text of a regular UTF-8 file."""
    check_regular(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise WrongInput(f"{path}: it has more than {MOST_BYTES:,} bytes; give a smaller file")
        content = path.read_bytes()
    except OSError as error:
        raise WrongInput(f"{path}: {error.strerror}") from None
    return decode(content, str(path))


def decode(content: bytes, place: str) -> str:
    """UTF-8, with or without a byte order mark; a carriage return stays where no line feed follows it."""
    at = content.find(0)
    if at < 0:
        try:
            return content.decode().removeprefix("\ufeff").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            at = error.start
    where = f"{place}:{content.count(10, 0, at) + 1}: byte 0x{content[at]:02x} at offset {at}"
    raise WrongInput(f"{where} is not UTF-8 text (is it UTF-16 or Latin-1?); save the file as UTF-8")


def read_lines(path: Path) -> tuple[str, list[str]]:
    """The place that refusals name, and the lines of a plain file, a .gz or the one text of a .zip."""
    if path.suffix.lower() in PACKED:
        place, content = _unpack(path)
        text = decode(content, place)
    else:
        place, text = str(path), read_text(path)
    if not text.strip():
        raise WrongInput(f"{place}: the file is empty")
    return place, text.removesuffix("\n").split("\n")


def _unpack(path: Path) -> tuple[str, bytes]:
    """Nothing is written to the disk, whatever paths an archive names."""
    check_regular(path)
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                return str(path), _gather(file.read, str(path))
        with ZipFile(path) as archive:
            entry = _find_text(archive, path)
            place = f"{path}/{PurePosixPath(entry.filename).name}"
            with archive.open(entry) as file:
                return place, _gather(file.read, place)
    except WrongInput:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.filename:  # it could not be opened
            raise WrongInput(f"{path}: {error.strerror}") from None
        reason = str(error)[:LONGEST_REASON] or "it ends too early"  # some quote the file itself
        raise WrongInput(f"{path}: the archive is damaged: {reason}; fetch it or pack it again") from None


def _find_text(archive: ZipFile, path: Path) -> ZipInfo:
    texts = [entry for entry in archive.infolist() if _is_text(entry.filename)]
    if not texts:
        raise WrongInput(f"{path}: no .txt or .tsv file is inside")
    if len(texts) > 1:
        names = " and ".join(entry.filename for entry in texts[:2])
        raise WrongInput(f"{path}: both {names} are inside; one is enough, so unpack it and give the file")
    if texts[0].flag_bits & PASSWORD:
        raise WrongInput(f"{path}: a password protects it; unpack it and give the file that is inside")
    return texts[0]


def _is_text(name: str) -> bool:
    """By a name that messages can show; what is put beside data begins with a dot or an underscore."""
    *folders, last = PurePosixPath(name).parts or ("",)
    hidden = last.startswith((".", "_")) or "__MACOSX" in folders
    return not hidden and name.lower().endswith((".txt", ".tsv")) and name.isprintable()


def _gather(read: Callable[[int], bytes], place: str) -> bytes:
    """All of it, unless it is too much: what an archive says of its own size is not believed."""
    pieces, size = [], 0
    while piece := read(PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise WrongInput(f"{place}: it unpacks to more than {MOST_BYTES:,} bytes; give a smaller file")
    return b"".join(pieces)
