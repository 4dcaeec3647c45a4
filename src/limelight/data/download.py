"""Download files into a cache folder: interrupted downloads are resumed, complete files are verified."""

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
from limelight.systems import close_to_rename, is_named, try_lock

TIMEOUT = 30.0  # seconds without receiving a byte
ATTEMPTS = 3  # consecutive attempts without receiving a byte
PAUSE = 1.0  # seconds between attempts
CHUNK = 2**18  # bytes
BY_HAND = "download it manually and pass it with --data PATH"
CHECKSUM = re.compile(r"(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})", re.ASCII)
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)", re.ASCII)
RANGE_NOT_SATISFIABLE = 416
PARTIAL = 206

Progress = Callable[[int, int], None]  # called with the bytes received so far and the total


class _ConnectionLost(Exception):
    """The server cannot be reached or the connection was lost; the message is the reason."""


def cache_folder() -> Path:
    """$LIMELIGHT_CACHE, or the folder `limelight` in $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("LIMELIGHT_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # Its specification requires that relative paths are ignored.
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "limelight"
    except RuntimeError:
        raise WrongInput("no home folder is known; set LIMELIGHT_CACHE=FOLDER") from None


def print_progress(done: int, total: int) -> None:
    """Print the progress on stderr if it is a terminal; each line overwrites the previous one."""
    if sys.stderr.isatty():
        end = "\n" if done == total else "\r"
        print(f"{done / total:4.0%} of {total:,} bytes", end=end, file=sys.stderr, flush=True)


def fetch(url: str, folder: Path, *, size: int, checksum: str, progress: Progress = print_progress) -> Path:
    """Download a file unless it is already in the folder, and verify its checksum ("md5:…" or "sha256:…").

    An incomplete download is kept in a file that ends with .part, and the next call resumes it. The file is
    renamed only when it is complete and its checksum is correct.
    """
    if not CHECKSUM.fullmatch(checksum):
        raise wrong("checksum", repr(checksum), "md5: or sha256: followed by hexadecimal digits")
    path = folder / PurePosixPath(urlsplit(url).path).name
    try:
        if path.exists():
            return _verify_existing(path, checksum)
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(path.with_name(f"{path.name}.part"), path) as part:
            if part is None:  # another process has just downloaded it
                return _verify_existing(path, checksum)
            _fetch_rest(url, part, size, progress)
            _verify_download(url, part, checksum)
            os.fsync(part.fileno())
            close_to_rename(part)
            os.replace(part.name, path)
    except OSError as error:
        raise WrongInput(f"{error.filename or path}: {error.strerror or error}") from None
    return path


def _verify_existing(path: Path, checksum: str) -> Path:
    with path.open("rb") as file:
        found = _checksum(file, checksum)
    if found != checksum:
        raise WrongInput(
            f"{path}: the checksum is {found}; expected: {checksum}; delete the file to download it again"
        )
    return path


def _verify_download(url: str, part: BinaryIO, checksum: str) -> None:
    part.seek(0)
    found = _checksum(part, checksum)
    if found != checksum:
        part.truncate(0)  # an empty file is removed
        again = f"the file was deleted: try again, or {BY_HAND}"
        raise WrongInput(f"{part.name}: the checksum of {url} is {found}; expected: {checksum}; {again}")


def _checksum(file: BinaryIO, expected: str) -> str:
    """The checksum of a file, with the same algorithm as the expected one."""
    algorithm = expected.partition(":")[0]
    result = hashlib.new(algorithm, usedforsecurity=False)
    while chunk := file.read(CHUNK):
        result.update(chunk)
    return f"{algorithm}:{result.hexdigest()}"


@contextmanager
def _lock(part: Path, path: Path) -> Iterator[BinaryIO | None]:
    """Open and lock the incomplete file; None if another process has completed it in the meantime."""
    with part.open("a+b") as file:
        busy = WrongInput(f"{part}: another process is downloading this file; wait until it has finished")
        if not try_lock(file):
            raise busy
        try:
            # The previous holder of the lock may have renamed the file: it must not be written to.
            if not path.exists() and not is_named(file, part):
                raise busy
            yield None if path.exists() else file
        finally:
            if not file.closed and is_named(file, part) and not os.fstat(file.fileno()).st_size:
                close_to_rename(file)
                part.unlink()


def _fetch_rest(url: str, part: BinaryIO, size: int, progress: Progress) -> None:
    """Download the missing bytes, over several connections if necessary."""
    done = part.seek(0, os.SEEK_END)
    if done > size:
        done = part.truncate(0)
    if done < size:
        present = f", {done:,} already present" if done else ""
        print(f"downloading {url} ({size:,} bytes{present}) to {part.name}", file=sys.stderr, flush=True)
    attempts = ATTEMPTS
    while done < size:
        before = done
        try:
            done = _fetch_some(url, part, size, progress)
            reason = f"the connection ended after {done:,} bytes"
        except _ConnectionLost as error:
            done, reason = part.seek(0, os.SEEK_END), str(error)
        attempts = ATTEMPTS if done > before else attempts - 1
        if done < size:
            if not attempts:
                raise WrongInput(_failure(url, part, size, reason))
            time.sleep(PAUSE)


def _failure(url: str, part: BinaryIO, size: int, reason: str) -> str:
    done = part.seek(0, os.SEEK_END)
    kept = f"{done:,} bytes are kept; the next attempt resumes there" if done else "no bytes were received"
    return f"{url}: the download of {size:,} bytes failed: {reason} ({kept}); try again, or {BY_HAND}"


def _fetch_some(url: str, part: BinaryIO, size: int, progress: Progress) -> int:
    """Download over one connection; returns the size of the incomplete file afterwards."""
    done = part.seek(0, os.SEEK_END)
    with _request(url, done) as response:
        start, total = _find_range(response)
        if start not in (0, done):
            part.truncate(0)  # the next attempt requests the whole file
            raise _ConnectionLost(f"the server sent bytes from offset {start:,}; requested: {done:,}")
        if total not in (None, size):
            raise WrongInput(
                f"{url}: the file on the server has {total:,} bytes; expected: {size:,}; {BY_HAND}"
            )
        done = part.truncate(start)
        progress(done, size)
        while done < size and (chunk := _read(response, min(CHUNK, size - done))):
            done += part.write(chunk)
            progress(done, size)
    part.flush()
    return done


def _request(url: str, start: int) -> HTTPResponse:
    """Request a file from byte `start`; the whole file if the server has no such range."""
    headers = {"User-Agent": "limelight", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE and start:
            return _request(url, 0)
        raise _ConnectionLost(f"the server returned {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise _ConnectionLost(f"the server cannot be reached: {getattr(error, 'reason', error)}") from None


def _find_range(response: HTTPResponse) -> tuple[int, int | None]:
    """The offset at which the response starts, and the size of the whole file if it is given."""
    found = RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status == PARTIAL and found:
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _read(response: HTTPResponse, most: int) -> bytes:
    try:
        return response.read(most)
    except (OSError, HTTPException) as error:
        raise _ConnectionLost(f"the connection was lost: {error}") from None
