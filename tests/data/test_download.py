"""Downloads: resumed, verified, cached."""

import fcntl
import hashlib
import random
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support import must_fail, not_none

from limelight.data import download
from limelight.data.download import cache_folder, fetch
from limelight.errors import WrongInput

CONTENT = random.Random(17).randbytes(1_000_003)
HALF = 500_009
BY_HAND = "download it manually and pass it with --data PATH"


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Behaviour:
    """The content and the behaviour of the server, and the ranges that were requested."""

    content: bytes = CONTENT
    ranges: bool = True  # whether range requests are supported
    shift: int = 0  # offset error of ranges in bytes
    drops: list[int] = field(default_factory=list)  # bytes after which the next responses end
    status: int = 0  # HTTP status of an error
    length: bool = True  # whether Content-Length is sent
    pause: float = 0.0
    requested: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_GET(self) -> None:
        wanted, has = self.headers.get("Range", ""), self.server.behaviour
        has.requested.append(wanted)
        begin = int(not_none(re.fullmatch(r"bytes=(\d+)-", wanted))[1]) if wanted and has.ranges else 0
        if has.status or begin > len(has.content) - 1:
            self.send_error(has.status or 416)
            return
        begin += has.shift if begin else 0
        self.send_response(206 if wanted and has.ranges else 200)
        if wanted and has.ranges:
            whole = len(has.content)
            self.send_header("Content-Range", f"bytes {begin}-{whole - 1}/{whole}")
        if has.length:
            self.send_header("Content-Length", str(len(has.content) - begin))
        self.end_headers()
        time.sleep(has.pause)
        body = has.content[begin:]
        self.wfile.write(body[: has.drops.pop(0)] if has.drops else body)

    def log_message(self, format: str, *args: Any) -> None: ...


class Server(ThreadingHTTPServer):
    behaviour: Behaviour

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/~kriz/set.tar.gz"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSE", 0.01)
    with Server(("127.0.0.1", 0), Handler) as server:
        server.behaviour = Behaviour()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server: Server, folder: Path, **settings: Any) -> Path:
    given = {"size": len(CONTENT), "checksum": md5(CONTENT), "progress": lambda done, total: None}
    return fetch(server.url, folder, **{**given, **settings})


def error_message(server: Server, folder: Path, **settings: Any) -> str:
    """The error message, or an empty string if there is no error."""
    try:
        get(server, folder, **settings)
    except WrongInput as error:
        return str(error)
    return ""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def check_whole(path: Path) -> None:
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["set.tar.gz"]


@pytest.mark.parametrize("checksum", [md5(CONTENT), sha256(CONTENT)])
@pytest.mark.parametrize("length", [True, False])
def test_a_file_is_downloaded_once(
    tmp_path: Path, server: Server, checksum: str, length: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behaviour.length = length
    progress: list[tuple[int, int]] = []
    path = get(
        server, tmp_path / "a" / "b", checksum=checksum, progress=lambda *numbers: progress.append(numbers)
    )
    check_whole(path)
    assert (progress[0], progress[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert progress == sorted(progress)
    assert len(progress) > 3
    announced = f"downloading {server.url} (1,000,003 bytes) to {path}.part\n"
    assert capsys.readouterr().err == announced
    assert get(server, path.parent, checksum=checksum) == path
    assert (server.behaviour.requested, capsys.readouterr().err) == ([""], "")

    path.write_bytes(CONTENT[:-1])
    must_fail(check_whole, path)


def test_an_existing_file_is_used_without_a_network(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/set.tar.gz"
    (tmp_path / "set.tar.gz").write_bytes(CONTENT)
    path = fetch(nowhere, tmp_path, size=len(CONTENT), checksum=sha256(CONTENT))
    check_whole(path)


def test_only_missing_bytes_are_requested(tmp_path: Path, server: Server) -> None:
    server.behaviour.drops = [HALF]
    path = get(server, tmp_path)
    check_whole(path)

    def check() -> None:
        assert server.behaviour.requested == ["", f"bytes={HALF}-"]

    check()
    path.unlink()
    server.behaviour.requested = []
    get(server, tmp_path)
    must_fail(check)


def test_a_later_call_resumes_an_incomplete_download(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behaviour.drops = [HALF, 0, 0, 0]
    message = error_message(server, tmp_path)
    assert message == (
        f"{server.url}: the download of 1,000,003 bytes failed: the connection ended after 500,009 bytes "
        f"(500,009 bytes are kept; the next attempt resumes there); try again, or {BY_HAND}"
    )
    assert names(tmp_path) == ["set.tar.gz.part"]
    capsys.readouterr()
    server.behaviour.requested = []
    check_whole(get(server, tmp_path))
    assert server.behaviour.requested == [f"bytes={HALF}-"]
    assert "(1,000,003 bytes, 500,009 already present)" in capsys.readouterr().err


def test_attempts_continue_while_bytes_are_received(tmp_path: Path, server: Server) -> None:
    server.behaviour.drops = [100_003, 0, 0, 100_003, 0, 0, 100_003, 0, 0]
    check_whole(get(server, tmp_path))
    begins = [0, *[100_003] * 3, *[200_006] * 3, *[300_009] * 3]
    assert server.behaviour.requested == [f"bytes={begin}-" if begin else "" for begin in begins]


def test_a_server_without_range_support_sends_the_whole_file_again(tmp_path: Path, server: Server) -> None:
    server.behaviour.ranges, server.behaviour.drops = False, [HALF]
    check_whole(get(server, tmp_path))
    assert server.behaviour.requested == ["", f"bytes={HALF}-"]


def test_after_a_wrong_range_the_whole_file_is_requested(tmp_path: Path, server: Server) -> None:
    server.behaviour.shift, server.behaviour.drops = 7, [HALF]
    check_whole(get(server, tmp_path))
    assert server.behaviour.requested == ["", f"bytes={HALF}-", ""]


def test_a_complete_part_file_is_renamed_without_a_request(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT)
    check_whole(get(server, tmp_path))
    assert server.behaviour.requested == []


def test_a_part_file_that_is_too_long_is_downloaded_again(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT + b"more")
    check_whole(get(server, tmp_path))
    assert server.behaviour.requested == [""]


def test_a_download_with_a_wrong_checksum_is_deleted(tmp_path: Path, server: Server) -> None:
    wrong = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])

    def check(content: bytes) -> None:
        server.behaviour.content = content
        assert error_message(server, tmp_path) == (
            f"{tmp_path}/set.tar.gz.part: the checksum of {server.url} is {md5(wrong)}; "
            f"expected: {md5(CONTENT)}; the file was deleted: try again, or {BY_HAND}"
        )
        assert names(tmp_path) == []

    check(wrong)
    must_fail(check, CONTENT)
    check_whole(tmp_path / "set.tar.gz")


def test_after_a_damaged_part_file_the_next_call_succeeds(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(bytes(HALF))
    assert "the file was deleted: try again" in error_message(server, tmp_path)
    check_whole(get(server, tmp_path))
    assert server.behaviour.requested == [f"bytes={HALF}-", ""]


def test_an_existing_file_with_a_wrong_checksum_is_an_error_and_is_not_changed(
    tmp_path: Path, server: Server
) -> None:
    path = tmp_path / "set.tar.gz"
    path.write_bytes(b"mine")
    what = (
        f"{path}: the checksum is {md5(b'mine')}; expected: {md5(CONTENT)}; "
        "delete the file to download it again"
    )
    assert error_message(server, tmp_path) == what
    assert path.read_bytes() == b"mine"
    assert server.behaviour.requested == []
    path.unlink()
    assert error_message(server, tmp_path) == ""


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("content", [CONTENT + b"more", CONTENT[:1_009]], ids=len)
def test_a_file_of_another_size_on_the_server_is_an_error_and_the_part_file_is_kept(
    tmp_path: Path, server: Server, content: bytes, ranges: bool
) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT[:HALF])
    server.behaviour.ranges = ranges
    server.behaviour.content = content
    assert error_message(server, tmp_path) == (
        f"{server.url}: the file on the server has {len(content):,} bytes; expected: 1,000,003; {BY_HAND}"
    )
    assert (tmp_path / "set.tar.gz.part").read_bytes() == CONTENT[:HALF]
    server.behaviour.content = CONTENT
    check_whole(get(server, tmp_path))


def test_no_more_than_the_expected_bytes_are_downloaded(tmp_path: Path, server: Server) -> None:
    server.behaviour.length = False
    server.behaviour.content = CONTENT + bytes(10_000_000)
    check_whole(get(server, tmp_path))


def test_the_error_without_a_network_contains_advice(tmp_path: Path, server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/set.tar.gz"
    with pytest.raises(WrongInput) as refused:
        fetch(closed, tmp_path / "cache", size=len(CONTENT), checksum=md5(CONTENT))
    assert str(refused.value) == (
        f"{closed}: the download of 1,000,003 bytes failed: the server cannot be reached: "
        f"[Errno 111] Connection refused (no bytes were received); try again, or {BY_HAND}"
    )
    assert names(tmp_path / "cache") == []
    assert error_message(server, tmp_path / "cache") == ""


@pytest.mark.parametrize(("status", "words"), [(404, "404 Not Found"), (503, "503 Service Unavailable")])
def test_the_status_of_the_server_is_reported(
    tmp_path: Path, server: Server, status: int, words: str
) -> None:
    server.behaviour.status = status
    assert f"failed: the server returned {words} (no bytes were received)" in error_message(server, tmp_path)
    assert names(tmp_path) == []
    server.behaviour.status = 0
    assert error_message(server, tmp_path) == ""


def test_a_server_that_sends_nothing_times_out(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.behaviour.pause = 0.5
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    assert "timed out (no bytes were received)" in error_message(server, tmp_path)
    assert len(server.behaviour.requested) == download.ATTEMPTS
    monkeypatch.setattr(download, "TIMEOUT", 10.0)
    assert error_message(server, tmp_path) == ""


def test_two_processes_do_not_write_to_the_same_file(tmp_path: Path, server: Server) -> None:
    part = tmp_path / "set.tar.gz.part"
    with part.open("wb") as held:
        held.write(CONTENT[:HALF])
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        expected = f"{part}: another process is downloading this file; wait until it has finished"
        assert error_message(server, tmp_path) == expected
        assert part.read_bytes() == CONTENT[:HALF]
    check_whole(get(server, tmp_path))


def test_a_download_that_was_killed_is_resumed(tmp_path: Path, server: Server) -> None:
    server.behaviour.length, server.behaviour.content = False, CONTENT[:HALF]
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from limelight.data.download import fetch\n"
        f"progress = lambda done, total: done == {HALF} and (print(done, flush=True), time.sleep(60))\n"
        f"folder, checksum = Path({str(tmp_path)!r}), {md5(CONTENT)!r}\n"
        f"fetch({server.url!r}, folder, size={len(CONTENT)}, checksum=checksum, progress=progress)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == b"500009\n"
        child.kill()
    assert names(tmp_path) == ["set.tar.gz.part"]
    server.behaviour.content, server.behaviour.requested = CONTENT, []
    check_whole(get(server, tmp_path))
    (wanted,) = server.behaviour.requested
    assert re.fullmatch(r"bytes=[1-9]\d{5}-", wanted)  # bytes written before the kill are kept


def test_the_error_for_a_folder_that_cannot_be_created_names_it(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_text("")
    assert error_message(server, tmp_path / "file" / "cache") == f"{tmp_path}/file/cache: Not a directory"
    (tmp_path / "set.tar.gz").mkdir()
    assert error_message(server, tmp_path) == f"{tmp_path}/set.tar.gz: Is a directory"
    assert server.behaviour.requested == []
    assert error_message(server, tmp_path / "cache") == ""


def test_a_full_disk_is_reported_as_such(tmp_path: Path, server: Server) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, before[1]))
    try:
        assert error_message(server, tmp_path) == f"{tmp_path}/set.tar.gz: File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["set.tar.gz.part"]
    check_whole(get(server, tmp_path))
    assert server.behaviour.requested[1:] == [f"bytes={HALF}-"]


def test_an_unsupported_kind_of_checksum_is_an_error(tmp_path: Path, server: Server) -> None:
    for checksum in ("", "md5:", md5(b"")[4:], "sha1:" + "0" * 40, md5(b"") + "0"):
        assert error_message(server, tmp_path, checksum=checksum) == (
            f"checksum is {checksum!r}; allowed: md5: or sha256: followed by hexadecimal digits"
        )


def test_progress_is_printed_only_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    download.print_progress(500, 1_000)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    download.print_progress(500, 1_000)
    download.print_progress(1_000, 1_000)
    assert capsys.readouterr().err == " 50% of 1,000 bytes\r100% of 1,000 bytes\n"


def test_the_cache_folder_is_set_by_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIMELIGHT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/limelight")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/home/me/.cache/limelight")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_folder() == Path("/var/cache/limelight")
    monkeypatch.setenv("LIMELIGHT_CACHE", "/data/sets")
    assert cache_folder() == Path("/data/sets")
