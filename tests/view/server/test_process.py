"""The server as a process of its own: real sockets, real signals, real memory."""

import asyncio
import contextlib
import json
import os
import random
import select
import signal
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_client import TEXT, Answer, TinyLook
from drawn import chunk, noise, save
from server_processes import LAST_CHUNK, Server, Servers, in_chunks, post, read_answer
from support import goes_red, mutated

from limelight.errors import WrongInput
from limelight.view.server.app import serve
from limelight.view.server.security import HEADERS

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("logs"))
    yield servers
    servers.close()


@pytest.fixture
def servers(program: Servers) -> Iterator[Servers]:
    yield program
    program.end()


# The beginning.


def test_a_port_that_is_taken_or_no_port_is_wrong_input() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(WrongInput, match=rf"^port {port}: address already in use; name another, or 0"):
            serve(TinyLook(), TEXT, port)
    with pytest.raises(WrongInput, match="port is 65536; allowed: 0 to 65,535"):
        serve(TinyLook(), TEXT, 2**16)


def test_the_server_is_to_be_found_on_this_machine_only(servers: Servers) -> None:
    server = servers.start()
    sockets = Path(f"/proc/{server.process}/net/tcp").read_text().splitlines()[1:]
    listening = [line.split()[1] for line in sockets if line.split()[3] == "0A"]
    assert f"0100007F:{server.port:04X}" in listening
    assert f"00000000:{server.port:04X}" not in listening
    assert server.get("/api/health").json == {"status": "ok", "waiting": 0}


# S3: who may ask.


def strangers(port: int) -> list[str]:
    """Headers that a browser sends for a page that is not ours, and others that lie."""
    own = f"Host: 127.0.0.1:{port}\r\n"
    hosts = ["limelight.example", f"limelight.example:{port}", f"127.0.0.1.evil.example:{port}", "0.0.0.0"]
    hosts += [f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}@evil.example", f"evil.example/127.0.0.1:{port}"]
    hosts += ["", f"localhost.:{port}", f"[::1]:{port}:1", f"127.1:{port}", f"::1:{port}"]
    origins = ["null", "http://evil.example", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}", ""]
    origins += ["http://localhost", f"http://evil.example:{port}", f"http://127.0.0.1:{port}/", "file://"]
    twice = f"{own}Origin: http://127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n"
    return [
        *(f"Host: {host}\r\n" for host in hosts),
        *(f"{own}Origin: {origin}\r\n" for origin in origins),
        f"{own}Sec-Fetch-Site: cross-site\r\n",
        f"Host: evil.example\r\nX-Forwarded-Host: 127.0.0.1:{port}\r\n",
        twice,
    ]


def check_strangers(server: Server) -> None:
    body = '{"given": "abc"}'
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    for headers in strangers(server.port):
        for request in (f"GET / HTTP/1.1\r\n{headers}\r\n", f"POST /api/look HTTP/1.1\r\n{headers}{about}"):
            answer = server.exchange(request.encode())
            assert answer.status == 403, headers
            assert answer.headers.items() >= HEADERS.items()
    assert server.exchange(b"GET /api/about HTTP/1.0\r\n\r\n").status == 403


def test_only_pages_of_this_server_and_programs_of_this_machine_are_answered(servers: Servers) -> None:
    server = servers.start()
    check_strangers(server)
    for name in ("127.0.0.1", "localhost", "LocalHost", "[::1]"):
        for host in (name, f"{name}:{server.port}"):
            head = f"GET /api/about HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\n"
            assert server.exchange(f"{head}\r\n".encode()).status == 200
            origin = f"Origin: http://{name}:{server.port}\r\n"
            assert server.exchange(f"{head}{origin}\r\n".encode()).status == 200
    goes_red(check_strangers, servers.start(broken="unguarded"))


# S4, S6: what uvicorn would answer by itself.


def check_no_http(server: Server) -> None:
    greeting, unknown = b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / FTP/1.1\r\n\r\n"
    for request in (greeting, unknown, b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000):
        answer = server.exchange(request)
        assert answer.status == 400
        assert answer.json == {"error": "this is no valid HTTP request"}
        assert answer.headers.items() >= HEADERS.items()


def test_what_is_no_http_is_refused_with_the_promised_headers(servers: Servers) -> None:
    check_no_http(servers.start())
    goes_red(check_no_http, servers.start(constants={"HEADERS": {}}))


def check_crowd(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(server.connect())
        answer = server.get("/api/health")
        assert (answer.status, answer.headers.get("retry-after")) == (503, "1")
        assert answer.headers.items() >= HEADERS.items()
    end = time.monotonic() + 10
    while server.get("/api/health").status != 200:
        assert time.monotonic() < end


def test_more_connections_than_can_be_are_told_to_try_again(servers: Servers) -> None:
    check_crowd(servers.start(constants={"MOST_CONNECTIONS": 3}))
    goes_red(check_crowd, servers.start())


LENGTHS = [b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n"]
MARKS = [b"\r\n", b"\n", b":", b" ", b"\x00", b"/", b"1.1", *LENGTHS]


def check_damaged_bytes(servers: Servers, **constants: Any) -> None:
    server = servers.start(limits={"body_seconds": 0.05}, constants={"HEAD_SECONDS": 0.05, **constants})
    draw = random.Random(1)
    whole, chunked = post(server.port, b'{"given": "abc"}'), in_chunks(server.port, b'{"given": "abc"}')
    statuses = set()
    for number in range(67):
        with contextlib.suppress(ConnectionError):  # what is never complete may get no answer
            answer = server.exchange(mutated((whole, chunked)[number % 2], MARKS, draw))
            statuses.add(answer.status)
            assert answer.headers.items() >= HEADERS.items()
    assert {200, 400} <= statuses <= {200, 400, 403, 404, 405, 408, 413, 415}
    assert server.ask("abc").status == 200
    assert server.log.read_text() == ""


def test_damaged_bytes_on_the_wire_leave_no_trace(servers: Servers) -> None:
    check_damaged_bytes(servers)
    goes_red(lambda: check_damaged_bytes(servers, HEADERS={}))


# S5: what is too much.


def check_large_body(server: Server, size: int) -> None:
    """Announced or not, it is refused before much of it was sent, and none of it is kept."""
    server.ask("abc")
    before = server.memory()
    block = bytes(MEGABYTE)
    check_stops(server, post(server.port, b"", length=size), block, size // MEGABYTE)
    part = b"%x\r\n%s\r\n" % (len(block), block)
    check_stops(server, in_chunks(server.port, b"").removesuffix(LAST_CHUNK), part, size // MEGABYTE)
    assert server.memory() - before < 32 * MEGABYTE
    assert server.get("/api/health").status == 200


def check_stops(server: Server, head: bytes, part: bytes, count: int) -> None:
    with server.connect() as connection:
        connection.sendall(head)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < count and not is_answered(connection):
                connection.sendall(part)
                sent += 1
        assert sent < count / 4
        assert read_answer(connection).status == 413


def is_answered(connection: socket.socket) -> bool:
    """Or closed."""
    return bool(select.select([connection], [], [], 0)[0])


def test_a_body_of_a_gigabyte_is_refused_at_its_beginning(servers: Servers) -> None:
    check_large_body(servers.start(), 2**30)
    goes_red(check_large_body, servers.start(limits={"text_bytes": 2**40}), 64 * MEGABYTE)


def dribble(server: Server, head: bytes) -> bytes:
    """What is answered to a byte now and then, for 1.5 seconds at most; nothing if the server hangs up."""
    with server.connect() as connection:
        connection.sendall(head)
        for _ in range(30):
            time.sleep(0.05)
            if is_answered(connection):
                return connection.recv(65_536)
            connection.sendall(b"x")
    raise AssertionError("a slow request is waited for")


def check_slow_body(server: Server) -> None:
    assert b" 408 " in dribble(server, post(server.port, b"{", length=1_000))


def check_slow_head(server: Server) -> None:
    assert dribble(server, b"GET / HTTP/1.1\r\nHost: ") == b""


def test_a_body_that_dribbles_is_not_waited_for(servers: Servers) -> None:
    check_slow_body(servers.start(limits={"body_seconds": 0.3}))
    goes_red(check_slow_body, servers.start())


def test_a_head_that_dribbles_is_not_waited_for(servers: Servers) -> None:
    check_slow_head(servers.start(constants={"HEAD_SECONDS": 0.3}))
    goes_red(check_slow_head, servers.start())


def check_slow_reader(server: Server) -> None:
    """An answer that does not fit into the sockets' buffers, to somebody who does not read it."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(f"GET /api/health HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
        assert read_answer(connection).status == 200
        before = server.sockets()
        connection.sendall(post(server.port, b'{"given": "abc"}'))
        assert select.select([connection], [], [], 10)[0]
        end = time.monotonic() + 1.5
        while server.sockets() == before:
            assert time.monotonic() < end
            time.sleep(0.02)


def test_an_answer_that_nobody_reads_is_not_kept(servers: Servers) -> None:
    check_slow_reader(servers.start(size=2**24, constants={"READ_SECONDS": 0.3, "NEXT_SECONDS": 60}))
    goes_red(check_slow_reader, servers.start(size=2**24))


def black(side: int) -> bytes:
    """A PNG of one bit a pixel."""
    rows = zlib.compress(bytes((1 + (side + 7) // 8) * side), 1)
    header = side.to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def check_bomb(server: Server, bomb: bytes) -> None:
    before = server.memory()
    answer = server.exchange(post(server.port, bomb, "image/png"))
    assert answer.status == 400
    assert "more than 67,108,864" in answer.json["error"]
    assert server.memory() - before < 32 * MEGABYTE


def test_a_small_file_that_says_it_is_a_huge_image_is_refused(servers: Servers) -> None:
    server = servers.start("image")
    assert server.exchange(post(server.port, save(noise()), "image/png")).status == 200
    check_bomb(server, black(30_000))
    goes_red(check_bomb, servers.start("image", broken="trusting"), black(11_000))


def check_health(server: Server) -> None:
    request, answers = post(server.port, black(5_000), "image/png"), []
    threads = [threading.Thread(target=lambda: answers.append(server.exchange(request))) for _ in range(3)]
    for thread in threads:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in threads):
        begin = time.monotonic()
        assert server.get("/api/health").json["status"] == "ok"
        slowest = max(slowest, time.monotonic() - begin)
        time.sleep(0.01)
    assert [answer.status for answer in answers] == [200] * 3
    assert slowest < 1


def test_health_stays_fast_while_large_images_are_looked_at(servers: Servers) -> None:
    check_health(servers.start("image"))
    goes_red(check_health, servers.start("image", broken="blocking", seconds=0.6))


# L1: more than it can do.

CAPACITY = 40  # 8 that are computed, 32 that wait


async def ask_at_once(port: int, words: list[str]) -> list[Answer]:
    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, word: str) -> Answer:
        writer.write(post(port, json.dumps({"given": word}).encode()))
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers["content-length"]))
        writer.close()
        await writer.wait_closed()
        return Answer(int(status.split()[1]), headers, body)

    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in words]
    return await asyncio.gather(*(ask(*pair, word) for pair, word in zip(connections, words, strict=True)))


def check_load(server: Server) -> None:
    look, words = TinyLook(), [f"word {number}" for number in range(4 * CAPACITY)]
    answers = asyncio.run(ask_at_once(server.port, words))
    for word, answer in zip(words, answers, strict=True):
        if answer.status == 200:
            assert answer.body.decode() == look.look(word).model_dump_json()
        else:
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert sum(answer.status == 200 for answer in answers) >= CAPACITY / 2
    assert {answer.status for answer in answers} == {200, 503}
    assert server.ask("abc").status == 200


def test_at_four_times_its_capacity_the_server_answers_rightly_or_says_when_to_try_again(
    servers: Servers,
) -> None:
    check_load(servers.start(seconds=0.1))
    goes_red(check_load, servers.start(seconds=0.1, broken="swapping"))
    goes_red(check_load, servers.start(limits={"waiting": 1_000}))


# L3: the end.


def stop_under_load(servers: Servers, server: Server, *signals: int) -> list[Answer]:
    """What those get who were waiting when the signals came."""
    answers: list[Answer] = []
    words = [f"word {number}" for number in range(5)]
    threads = [threading.Thread(target=lambda word=word: answers.append(server.ask(word))) for word in words]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 10
    while server.get("/api/health").json["waiting"] < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    with server.connect():  # somebody who asks nothing
        begin = time.monotonic()
        for number in signals:
            os.kill(server.process, number)
            time.sleep(0.2)
        assert servers.wait(server) == 0
        assert time.monotonic() - begin <= 5
    for thread in threads:
        thread.join(10)
    return answers


def check_last_answers(servers: Servers, number: int, **wanted: Any) -> None:
    server = servers.start(seconds=0.3, limits={"together": 2}, **wanted)
    answers = stop_under_load(servers, server, number)
    assert [answer.status for answer in answers] == [200] * 5
    assert server.log.read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_after_the_answers_under_way(number: int, servers: Servers) -> None:
    check_last_answers(servers, number)


def test_the_check_catches_a_server_that_ends_at_once(servers: Servers) -> None:
    goes_red(lambda: check_last_answers(servers, signal.SIGTERM, constants={"LAST_SECONDS": 0}))


def test_a_model_that_hangs_does_not_keep_the_server_from_ending(servers: Servers) -> None:
    server = servers.start(seconds=60, limits={"together": 2})
    answers = stop_under_load(servers, server, signal.SIGINT, signal.SIGINT)
    assert len(answers) == 5
    for answer in answers:
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.json == {"error": "the server has been stopped"}
    assert server.log.read_text().splitlines() == [
        "Cancel 5 running task(s), timeout graceful shutdown exceeded"
    ]


@pytest.mark.torture
def test_the_check_catches_a_server_that_does_not_end(servers: Servers) -> None:
    server = servers.start(seconds=60, limits={"together": 2}, constants={"LAST_SECONDS": 6})
    goes_red(stop_under_load, servers, server, signal.SIGTERM)
