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
from support import goes_red

from limelight.data import download
from limelight.data.download import cache_folder, fetch
from limelight.errors import WrongInput

CONTENT = random.Random(17).randbytes(1_000_003)
HALF = 500_009
BY_HAND = "download it by hand and pass it with --data PATH"


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Behaviour:
    """What the server has and how it answers; what it was asked for."""

    content: bytes = CONTENT
    ranges: bool = True  # whether it knows them
    shift: int = 0  # bytes by which it sends another range
    drops: list[int] = field(default_factory=list)  # of the next answers, after how many bytes they break off
    status: int = 0  # with which it refuses
    length: bool = True  # whether it says how much will come
    pause: float = 0.0
    asked: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_GET(self) -> None:
        wanted, has = self.headers.get("Range", ""), self.server.behaviour
        has.asked.append(wanted)
        begin = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and has.ranges else 0
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
    given = {"size": len(CONTENT), "checksum": md5(CONTENT), "say": lambda done, total: None}
    return fetch(server.url, folder, **{**given, **settings})


def refusal(server: Server, folder: Path, **settings: Any) -> str:
    """What it says; nothing where the file is there afterwards."""
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
def test_a_file_is_fetched_once(
    tmp_path: Path, server: Server, checksum: str, length: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behaviour.length = length
    said: list[tuple[int, int]] = []
    path = get(server, tmp_path / "a" / "b", checksum=checksum, say=lambda *numbers: said.append(numbers))
    check_whole(path)
    assert (said[0], said[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert said == sorted(said)
    assert len(said) > 3
    announced = f"fetching {server.url} (1,000,003 bytes) into {path}.part\n"
    assert capsys.readouterr().err == announced
    assert get(server, path.parent, checksum=checksum) == path
    assert (server.behaviour.asked, capsys.readouterr().err) == ([""], "")

    path.write_bytes(CONTENT[:-1])
    goes_red(check_whole, path)


def test_what_is_there_is_used_without_a_network(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/set.tar.gz"
    (tmp_path / "set.tar.gz").write_bytes(CONTENT)
    path = fetch(nowhere, tmp_path, size=len(CONTENT), checksum=sha256(CONTENT))
    check_whole(path)


def test_the_rest_alone_is_asked_for(tmp_path: Path, server: Server) -> None:
    server.behaviour.drops = [HALF]
    path = get(server, tmp_path)
    check_whole(path)

    def check() -> None:
        assert server.behaviour.asked == ["", f"bytes={HALF}-"]

    check()
    path.unlink()
    server.behaviour.asked = []
    get(server, tmp_path)
    goes_red(check)


def test_a_later_call_goes_on_where_an_earlier_one_ended(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behaviour.drops = [HALF, 0, 0, 0]
    says = refusal(server, tmp_path)
    assert says == (
        f"{server.url}: 1,000,003 bytes were to be fetched, but the connection ended after 500,009 bytes "
        f"(500,009 bytes are kept, and the next try goes on behind them); try again, or {BY_HAND}"
    )
    assert names(tmp_path) == ["set.tar.gz.part"]
    capsys.readouterr()
    server.behaviour.asked = []
    check_whole(get(server, tmp_path))
    assert server.behaviour.asked == [f"bytes={HALF}-"]
    assert "(1,000,003 bytes, of which 500,009 are there)" in capsys.readouterr().err


def test_as_long_as_something_comes_it_goes_on(tmp_path: Path, server: Server) -> None:
    server.behaviour.drops = [100_003, 0, 0, 100_003, 0, 0, 100_003, 0, 0]
    check_whole(get(server, tmp_path))
    begins = [0, *[100_003] * 3, *[200_006] * 3, *[300_009] * 3]
    assert server.behaviour.asked == [f"bytes={begin}-" if begin else "" for begin in begins]


def test_a_server_that_knows_no_ranges_sends_all_again(tmp_path: Path, server: Server) -> None:
    server.behaviour.ranges, server.behaviour.drops = False, [HALF]
    check_whole(get(server, tmp_path))
    assert server.behaviour.asked == ["", f"bytes={HALF}-"]


def test_a_server_that_sends_another_range_is_asked_for_all(tmp_path: Path, server: Server) -> None:
    server.behaviour.shift, server.behaviour.drops = 7, [HALF]
    check_whole(get(server, tmp_path))
    assert server.behaviour.asked == ["", f"bytes={HALF}-", ""]


def test_a_whole_part_gets_its_name_without_a_request(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT)
    check_whole(get(server, tmp_path))
    assert server.behaviour.asked == []


def test_a_part_that_is_too_long_is_fetched_anew(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT + b"more")
    check_whole(get(server, tmp_path))
    assert server.behaviour.asked == [""]


def test_wrong_bytes_never_get_the_name(tmp_path: Path, server: Server) -> None:
    wrong = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])

    def check(content: bytes) -> None:
        server.behaviour.content = content
        assert refusal(server, tmp_path) == (
            f"{tmp_path}/set.tar.gz.part: what came from {server.url} has {md5(wrong)}, not {md5(CONTENT)}; "
            f"it was deleted: try again, or {BY_HAND}"
        )
        assert names(tmp_path) == []

    check(wrong)
    goes_red(check, CONTENT)
    check_whole(tmp_path / "set.tar.gz")


def test_a_damaged_part_does_not_spoil_the_next_try(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(bytes(HALF))
    assert "it was deleted: try again" in refusal(server, tmp_path)
    check_whole(get(server, tmp_path))
    assert server.behaviour.asked == [f"bytes={HALF}-", ""]


def test_a_wrong_file_is_refused_by_name_and_left_alone(tmp_path: Path, server: Server) -> None:
    path = tmp_path / "set.tar.gz"
    path.write_bytes(b"mine")
    what = f"{path}: its checksum is {md5(b'mine')}, not {md5(CONTENT)}; delete it to have it fetched again"
    assert refusal(server, tmp_path) == what
    assert path.read_bytes() == b"mine"
    assert server.behaviour.asked == []
    path.unlink()
    assert refusal(server, tmp_path) == ""


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("content", [CONTENT + b"more", CONTENT[:1_009]], ids=len)
def test_a_server_with_another_file_is_refused_before_anything_is_lost(
    tmp_path: Path, server: Server, content: bytes, ranges: bool
) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT[:HALF])
    server.behaviour.ranges = ranges
    server.behaviour.content = content
    assert refusal(server, tmp_path) == (
        f"{server.url}: the server has {len(content):,} bytes, not 1,000,003; {BY_HAND}"
    )
    assert (tmp_path / "set.tar.gz.part").read_bytes() == CONTENT[:HALF]
    server.behaviour.content = CONTENT
    check_whole(get(server, tmp_path))


def test_a_server_that_never_ends_is_cut_off(tmp_path: Path, server: Server) -> None:
    server.behaviour.length = False
    server.behaviour.content = CONTENT + bytes(10_000_000)
    check_whole(get(server, tmp_path))


def test_without_a_network_it_says_what_to_do(tmp_path: Path, server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/set.tar.gz"
    with pytest.raises(WrongInput) as refused:
        fetch(closed, tmp_path / "cache", size=len(CONTENT), checksum=md5(CONTENT))
    assert str(refused.value) == (
        f"{closed}: 1,000,003 bytes were to be fetched, but it cannot be reached: "
        f"[Errno 111] Connection refused (nothing came); try again, or {BY_HAND}"
    )
    assert names(tmp_path / "cache") == []
    assert refusal(server, tmp_path / "cache") == ""


@pytest.mark.parametrize(("status", "words"), [(404, "404 Not Found"), (503, "503 Service Unavailable")])
def test_what_the_server_says_is_passed_on(tmp_path: Path, server: Server, status: int, words: str) -> None:
    server.behaviour.status = status
    assert f"but the server says {words} (nothing came)" in refusal(server, tmp_path)
    assert names(tmp_path) == []
    server.behaviour.status = 0
    assert refusal(server, tmp_path) == ""


def test_a_server_that_sends_nothing_is_left(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.behaviour.pause = 0.5
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    assert "timed out (nothing came)" in refusal(server, tmp_path)
    assert len(server.behaviour.asked) == download.TRIES
    monkeypatch.setattr(download, "TIMEOUT", 10.0)
    assert refusal(server, tmp_path) == ""


def test_two_do_not_write_into_one_file(tmp_path: Path, server: Server) -> None:
    part = tmp_path / "set.tar.gz.part"
    with part.open("wb") as held:
        held.write(CONTENT[:HALF])
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        expected = f"{part}: another process is fetching it; wait until it has ended"
        assert refusal(server, tmp_path) == expected
        assert part.read_bytes() == CONTENT[:HALF]
    check_whole(get(server, tmp_path))


def test_one_that_was_killed_is_gone_on_with(tmp_path: Path, server: Server) -> None:
    server.behaviour.length, server.behaviour.content = False, CONTENT[:HALF]
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from limelight.data.download import fetch\n"
        f"say = lambda done, total: done == {HALF} and (print(done, flush=True), time.sleep(60))\n"
        f"folder, checksum = Path({str(tmp_path)!r}), {md5(CONTENT)!r}\n"
        f"fetch({server.url!r}, folder, size={len(CONTENT)}, checksum=checksum, say=say)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == b"500009\n"
        child.kill()
    assert names(tmp_path) == ["set.tar.gz.part"]
    server.behaviour.content, server.behaviour.asked = CONTENT, []
    check_whole(get(server, tmp_path))
    (wanted,) = server.behaviour.asked
    assert re.fullmatch(r"bytes=[1-9]\d{5}-", wanted)  # what the system had been given is kept


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(server, tmp_path / "file" / "cache") == f"{tmp_path}/file/cache: Not a directory"
    (tmp_path / "set.tar.gz").mkdir()
    assert refusal(server, tmp_path) == f"{tmp_path}/set.tar.gz: Is a directory"
    assert server.behaviour.asked == []
    assert refusal(server, tmp_path / "cache") == ""


def test_a_full_disk_is_no_fault_of_the_network(tmp_path: Path, server: Server) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, before[1]))
    try:
        assert refusal(server, tmp_path) == f"{tmp_path}/set.tar.gz: File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["set.tar.gz.part"]
    check_whole(get(server, tmp_path))
    assert server.behaviour.asked[1:] == [f"bytes={HALF}-"]


def test_a_checksum_of_another_kind_is_refused(tmp_path: Path, server: Server) -> None:
    for checksum in ("", "md5:", md5(b"")[4:], "sha1:" + "0" * 40, md5(b"") + "0"):
        assert refusal(server, tmp_path, checksum=checksum) == (
            f"checksum is {checksum!r}; allowed: md5: or sha256: and its digits"
        )


def test_progress_is_shown_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    download.tell(500, 1_000)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    download.tell(500, 1_000)
    download.tell(1_000, 1_000)
    assert capsys.readouterr().err == " 50% of 1,000 bytes\r100% of 1,000 bytes\n"


def test_the_cache_is_where_the_user_or_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
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
