"""Files from the internet, into a folder where they stay: in pieces if need be, and never half of one."""

import fcntl
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from limelight.errors import WrongInput, wrong

TIMEOUT = 30.0  # seconds without a byte
TRIES = 3  # in a row, without a byte
PAUSE = 1.0  # seconds between them
PIECE = 2**18
BY_HAND = "download it by hand and pass it with --data PATH"
CHECKSUM = re.compile(r"(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})", re.ASCII)
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)", re.ASCII)
RANGE_NOT_SATISFIABLE = 416
PARTIAL = 206

Say = Callable[[int, int], None]  # bytes that are there, bytes of the whole


class _Dropped(Exception):
    """The connection, and why."""


def cache_folder() -> Path:
    """$LIMELIGHT_CACHE, or `limelight` where the system keeps what can be fetched again."""
    if own := os.environ.get("LIMELIGHT_CACHE"):
        return Path(own)
    there = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # A relative one is to be ignored, says its specification.
        return (Path(there) if os.path.isabs(there) else Path.home() / ".cache") / "limelight"
    except RuntimeError:
        raise WrongInput("no home folder is known: say with LIMELIGHT_CACHE=FOLDER where to keep") from None


def tell(done: int, total: int) -> None:
    """How far it is, on a terminal alone; whatever is said next is written over it."""
    if sys.stderr.isatty():
        end = "\n" if done == total else "\r"
        print(f"{done / total:4.0%} of {total:,} bytes", end=end, file=sys.stderr, flush=True)


def fetch(url: str, folder: Path, *, size: int, checksum: str, say: Say = tell) -> Path:
    """The file, whole and with this checksum ("md5:…" or "sha256:…"); the network is asked only for what is
    not there.

    What has come stands in a file that ends with .part, and the next call goes on behind it. Only a whole
    file with the right checksum gets its name.
    """
    if not CHECKSUM.fullmatch(checksum):
        raise wrong("checksum", repr(checksum), "md5: or sha256: and its digits")
    path = folder / PurePosixPath(urlsplit(url).path).name
    try:
        if path.exists():
            return _check_old(path, checksum)
        folder.mkdir(parents=True, exist_ok=True)
        with _own(path.with_name(f"{path.name}.part"), path) as part:
            if part is None:  # another process has just fetched it
                return _check_old(path, checksum)
            _fetch_rest(url, part, size, say)
            _check_new(url, part, checksum)
            os.fsync(part.fileno())
            os.replace(part.name, path)
    except OSError as error:
        raise WrongInput(f"{error.filename or path}: {error.strerror or error}") from None
    return path


def _check_old(path: Path, checksum: str) -> Path:
    with path.open("rb") as file:
        found = _checksum(file, checksum)
    if found != checksum:
        raise WrongInput(
            f"{path}: its checksum is {found}, not {checksum}; delete it to have it fetched again"
        )
    return path


def _check_new(url: str, part: BinaryIO, checksum: str) -> None:
    part.seek(0)
    found = _checksum(part, checksum)
    if found != checksum:
        Path(part.name).unlink()
        again = f"it was deleted: try again, or {BY_HAND}"
        raise WrongInput(f"{part.name}: what came from {url} has {found}, not {checksum}; {again}")


def _checksum(file: BinaryIO, like: str) -> str:
    kind = like.partition(":")[0]
    whole = hashlib.new(kind, usedforsecurity=False)
    while piece := file.read(PIECE):
        whole.update(piece)
    return f"{kind}:{whole.hexdigest()}"


@contextmanager
def _own(part: Path, path: Path) -> Iterator[BinaryIO | None]:
    """The file of what has come, for this process alone; None if the whole has come meanwhile."""
    with part.open("a+b") as file:
        busy = WrongInput(f"{part}: another process is fetching it; wait until it has ended")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        try:
            # Who held the lock a moment ago may have given the file its name: it must not be written to.
            if not path.exists() and not _is_named(file, part):
                raise busy
            yield None if path.exists() else file
        finally:
            if _is_named(file, part) and not os.fstat(file.fileno()).st_size:
                part.unlink()


def _is_named(file: BinaryIO, name: Path) -> bool:
    return name.exists() and os.path.samestat(os.fstat(file.fileno()), name.stat())


def _fetch_rest(url: str, part: BinaryIO, size: int, say: Say) -> None:
    done = part.seek(0, os.SEEK_END)
    if done > size:
        done = part.truncate(0)
    if done < size:
        there = f", of which {done:,} are there" if done else ""
        print(f"fetching {url} ({size:,} bytes{there}) into {part.name}", file=sys.stderr, flush=True)
    tries = TRIES
    while done < size:
        before = done
        try:
            done = _fetch_some(url, part, size, say)
            reason = f"the connection ended after {done:,} bytes"
        except _Dropped as error:
            done, reason = part.seek(0, os.SEEK_END), str(error)
        tries = TRIES if done > before else tries - 1
        if done < size:
            if not tries:
                raise WrongInput(_unreachable(url, part, size, reason))
            time.sleep(PAUSE)


def _unreachable(url: str, part: BinaryIO, size: int, reason: str) -> str:
    done = part.seek(0, os.SEEK_END)
    kept = f"{done:,} bytes are kept, and the next try goes on behind them" if done else "nothing came"
    return f"{url}: {size:,} bytes were to be fetched, but {reason} ({kept}); try again, or {BY_HAND}"


def _fetch_some(url: str, part: BinaryIO, size: int, say: Say) -> int:
    """As much as comes through one connection; how much there is then."""
    done = part.seek(0, os.SEEK_END)
    with _ask(url, done) as response:
        begin, total = _find_range(response)
        if begin not in (0, done):
            part.truncate(0)  # the next try asks for the whole
            raise _Dropped(f"the server sent byte {begin:,} and on, not {done:,}")
        if total not in (None, size):
            raise WrongInput(f"{url}: the server has {total:,} bytes, not {size:,}; {BY_HAND}")
        done = part.truncate(begin)
        say(done, size)
        while done < size and (piece := _read(response, min(PIECE, size - done))):
            done += part.write(piece)
            say(done, size)
    part.flush()
    return done


def _ask(url: str, begin: int) -> HTTPResponse:
    headers = {"User-Agent": "limelight", "Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE and begin:
            return _ask(url, 0)
        raise _Dropped(f"the server says {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise _Dropped(f"it cannot be reached: {getattr(error, 'reason', error)}") from None


def _find_range(response: HTTPResponse) -> tuple[int, int | None]:
    """Where the answer begins, and how long the whole is; from a server that knows no ranges, all comes."""
    found = RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status == PARTIAL and found:
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _read(response: HTTPResponse, most: int) -> bytes:
    try:
        return response.read(most)
    except (OSError, HTTPException) as error:
        raise _Dropped(f"the connection broke: {error}") from None
