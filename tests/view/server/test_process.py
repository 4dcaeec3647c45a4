"""The server in a process of its own: real sockets, signals and memory."""

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
from app_client import TEXT, HttpResponse, TinyModel
from drawn import chunk, noise, save
from server_processes import LAST_CHUNK, Server, Servers, in_chunks, post, read_response
from support import must_fail, mutated

from limelight.errors import WrongInput
from limelight.view.record import Record
from limelight.view.server.app import serve
from limelight.view.server.security import RESPONSE_HEADERS

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


# Start


def test_a_used_or_invalid_port_is_invalid_input() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            WrongInput, match=rf"^port {port}: address already in use; choose another port, or 0"
        ):
            serve(TinyModel(), TEXT, port)
    with pytest.raises(WrongInput, match="port is 65536; allowed: 0 to 65,535"):
        serve(TinyModel(), TEXT, 2**16)


def test_the_server_listens_on_the_local_address_only(servers: Servers) -> None:
    server = servers.start()
    sockets = Path(f"/proc/{server.process}/net/tcp").read_text().splitlines()[1:]
    listening = [line.split()[1] for line in sockets if line.split()[3] == "0A"]
    assert f"0100007F:{server.port:04X}" in listening
    assert f"00000000:{server.port:04X}" not in listening
    assert server.get("/api/health").json == {"status": "ok", "waiting": 0}


# S3: access


def foreign_headers(port: int) -> list[str]:
    """Return headers that a browser sends for pages of other sites, and forged headers."""
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


def check_foreign_requests(server: Server) -> None:
    body = '{"given": "abc"}'
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    for headers in foreign_headers(server.port):
        for request in (f"GET / HTTP/1.1\r\n{headers}\r\n", f"POST /api/record HTTP/1.1\r\n{headers}{about}"):
            response = server.exchange(request.encode())
            assert response.status == 403, headers
            assert response.headers.items() >= RESPONSE_HEADERS.items()
    assert server.exchange(b"GET /api/about HTTP/1.0\r\n\r\n").status == 403


def test_only_requests_from_our_page_and_from_local_programs_are_accepted(servers: Servers) -> None:
    server = servers.start()
    check_foreign_requests(server)
    for name in ("127.0.0.1", "localhost", "LocalHost", "[::1]"):
        for host in (name, f"{name}:{server.port}"):
            head = f"GET /api/about HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\n"
            assert server.exchange(f"{head}\r\n".encode()).status == 200
            origin = f"Origin: http://{name}:{server.port}\r\n"
            assert server.exchange(f"{head}{origin}\r\n".encode()).status == 200
    must_fail(check_foreign_requests, servers.start(broken="unguarded"))


# S4, S6: requests that uvicorn refuses before the application sees them


def check_invalid_http(server: Server) -> None:
    greeting, unknown = b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / FTP/1.1\r\n\r\n"
    for request in (greeting, unknown, b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000):
        response = server.exchange(request)
        assert response.status == 400
        assert response.json == {"error": "this is not a valid HTTP request"}
        assert response.headers.items() >= RESPONSE_HEADERS.items()


def test_invalid_http_is_refused_with_the_promised_headers(servers: Servers) -> None:
    check_invalid_http(servers.start())
    must_fail(check_invalid_http, servers.start(constants={"RESPONSE_HEADERS": {}}))


def check_connection_limit(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(server.connect())
        response = server.get("/api/health")
        assert (response.status, response.headers.get("retry-after")) == (503, "1")
        assert response.headers.items() >= RESPONSE_HEADERS.items()
    end = time.monotonic() + 10
    while server.get("/api/health").status != 200:
        assert time.monotonic() < end


def test_too_many_connections_get_status_503_with_retry_after(servers: Servers) -> None:
    check_connection_limit(servers.start(constants={"MAX_CONNECTIONS": 3}))
    must_fail(check_connection_limit, servers.start())


LENGTHS = [b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n"]
MARKS = [b"\r\n", b"\n", b":", b" ", b"\x00", b"/", b"1.1", *LENGTHS]


def check_damaged_bytes(servers: Servers, **constants: Any) -> None:
    server = servers.start(limits={"body_seconds": 0.05}, constants={"HEAD_SECONDS": 0.05, **constants})
    draw = random.Random(1)
    whole, chunked = post(server.port, b'{"given": "abc"}'), in_chunks(server.port, b'{"given": "abc"}')
    statuses = set()
    for number in range(67):
        with contextlib.suppress(ConnectionError):  # an incomplete request may get no response
            response = server.exchange(mutated((whole, chunked)[number % 2], MARKS, draw))
            statuses.add(response.status)
            assert response.headers.items() >= RESPONSE_HEADERS.items()
    assert {200, 400} <= statuses <= {200, 400, 403, 404, 405, 408, 413, 415}
    assert server.predict("abc").status == 200
    assert server.log.read_text() == ""


def test_damaged_requests_leave_the_server_working_and_its_log_empty(servers: Servers) -> None:
    check_damaged_bytes(servers)
    must_fail(lambda: check_damaged_bytes(servers, RESPONSE_HEADERS={}))


# S5: large and slow requests


def check_large_body(server: Server, size: int) -> None:
    """A body is refused early and not kept in memory, with Content-Length and with chunks."""
    server.predict("abc")
    before = server.memory()
    block = bytes(MEGABYTE)
    check_refused_early(server, post(server.port, b"", length=size), block, size // MEGABYTE)
    part = b"%x\r\n%s\r\n" % (len(block), block)
    check_refused_early(server, in_chunks(server.port, b"").removesuffix(LAST_CHUNK), part, size // MEGABYTE)
    assert server.memory() - before < 32 * MEGABYTE
    assert server.get("/api/health").status == 200


def check_refused_early(server: Server, head: bytes, part: bytes, count: int) -> None:
    with server.connect() as connection:
        connection.sendall(head)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < count and not has_response(connection):
                connection.sendall(part)
                sent += 1
        assert sent < count / 4
        assert read_response(connection).status == 413


def has_response(connection: socket.socket) -> bool:
    """Return whether there is a response, or the connection is closed."""
    return bool(select.select([connection], [], [], 0)[0])


def test_a_body_of_one_gigabyte_is_refused_early(servers: Servers) -> None:
    check_large_body(servers.start(), 2**30)
    must_fail(check_large_body, servers.start(limits={"text_bytes": 2**40}), 64 * MEGABYTE)


def send_slowly(server: Server, head: bytes) -> bytes:
    """Send single bytes for at most 1.5 seconds; return the response, or b"" if the server disconnects."""
    with server.connect() as connection:
        connection.sendall(head)
        for _ in range(30):
            time.sleep(0.05)
            if has_response(connection):
                return connection.recv(65_536)
            connection.sendall(b"x")
    raise AssertionError("the server still waits for the slow request")


def check_slow_body(server: Server) -> None:
    assert b" 408 " in send_slowly(server, post(server.port, b"{", length=1_000))


def check_slow_head(server: Server) -> None:
    assert send_slowly(server, b"GET / HTTP/1.1\r\nHost: ") == b""


def test_a_slow_body_times_out(servers: Servers) -> None:
    check_slow_body(servers.start(limits={"body_seconds": 0.3}))
    must_fail(check_slow_body, servers.start())


def test_slow_headers_time_out(servers: Servers) -> None:
    check_slow_head(servers.start(constants={"HEAD_SECONDS": 0.3}))
    must_fail(check_slow_head, servers.start())


def check_slow_reader(server: Server) -> None:
    """Request a response that is larger than the socket buffers, and do not read it."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(f"GET /api/health HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
        assert read_response(connection).status == 200
        before = server.sockets()
        connection.sendall(post(server.port, b'{"given": "abc"}'))
        assert select.select([connection], [], [], 10)[0]
        end = time.monotonic() + 1.5
        while server.sockets() == before:
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_response_that_is_not_read_times_out(servers: Servers) -> None:
    check_slow_reader(servers.start(size=2**24, constants={"READ_SECONDS": 0.3, "KEEP_ALIVE_SECONDS": 60}))
    must_fail(check_slow_reader, servers.start(size=2**24))


def black(side: int) -> bytes:
    """Return a black PNG image with one bit per pixel."""
    rows = zlib.compress(bytes((1 + (side + 7) // 8) * side), 1)
    header = side.to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def check_huge_image(server: Server, image: bytes) -> None:
    before = server.memory()
    response = server.exchange(post(server.port, image, "image/png"))
    assert response.status == 400
    assert "more than 67,108,864" in response.json["error"]
    assert server.memory() - before < 32 * MEGABYTE


def test_a_small_file_with_a_huge_image_is_refused(servers: Servers) -> None:
    server = servers.start("image")
    assert server.exchange(post(server.port, save(noise()), "image/png")).status == 200
    check_huge_image(server, black(30_000))
    must_fail(check_huge_image, servers.start("image", broken="unchecked"), black(11_000))


def check_health(server: Server) -> None:
    request, responses = post(server.port, black(5_000), "image/png"), []
    threads = [threading.Thread(target=lambda: responses.append(server.exchange(request))) for _ in range(3)]
    for thread in threads:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in threads):
        begin = time.monotonic()
        assert server.get("/api/health").json["status"] == "ok"
        slowest = max(slowest, time.monotonic() - begin)
        time.sleep(0.01)
    assert [response.status for response in responses] == [200] * 3
    assert slowest < 1


def test_health_stays_fast_while_large_images_are_processed(servers: Servers) -> None:
    check_health(servers.start("image"))
    must_fail(check_health, servers.start("image", broken="blocking", seconds=0.6))


# L1: overload

CAPACITY = 40  # a batch of 8, and 32 requests in the queue


async def predict_at_once(port: int, words: list[str]) -> list[HttpResponse]:
    async def predict(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, word: str) -> HttpResponse:
        writer.write(post(port, json.dumps({"given": word}).encode()))
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers["content-length"]))
        writer.close()
        await writer.wait_closed()
        return HttpResponse(int(status.split()[1]), headers, body)

    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in words]
    return await asyncio.gather(
        *(predict(*pair, word) for pair, word in zip(connections, words, strict=True))
    )


def check_load(server: Server) -> None:
    model, words = TinyModel(), [f"word {number}" for number in range(4 * CAPACITY)]
    responses = asyncio.run(predict_at_once(server.port, words))
    for word, response in zip(words, responses, strict=True):
        if response.status == 200:
            expected = model.record(word)
            assert isinstance(expected, Record)
            assert response.body.decode() == expected.model_dump_json()
        else:
            assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert sum(response.status == 200 for response in responses) >= CAPACITY / 2
    assert {response.status for response in responses} == {200, 503}
    assert server.predict("abc").status == 200


def test_at_four_times_its_capacity_the_server_responds_correctly_or_with_retry_after(
    servers: Servers,
) -> None:
    check_load(servers.start(seconds=0.1))
    must_fail(check_load, servers.start(seconds=0.1, broken="swapping"))
    must_fail(check_load, servers.start(limits={"waiting": 1_000}))


# L3: shutdown


def stop_under_load(servers: Servers, server: Server, *signals: int) -> list[HttpResponse]:
    """Send the signals while requests are waiting, and return the responses to these requests."""
    responses: list[HttpResponse] = []
    words = [f"word {number}" for number in range(5)]
    threads = [
        threading.Thread(target=lambda word=word: responses.append(server.predict(word))) for word in words
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 10
    while server.get("/api/health").json["waiting"] < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    with server.connect():  # an idle connection
        begin = time.monotonic()
        for number in signals:
            os.kill(server.process, number)
            time.sleep(0.2)
        assert servers.wait(server) == 0
        assert time.monotonic() - begin <= 5
    for thread in threads:
        thread.join(10)
    return responses


def check_shutdown(servers: Servers, number: int, **options: Any) -> None:
    server = servers.start(seconds=0.3, limits={"together": 2}, **options)
    responses = stop_under_load(servers, server, number)
    assert [response.status for response in responses] == [200] * 5
    assert server.log.read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_after_a_signal_running_requests_finish_and_the_server_stops(number: int, servers: Servers) -> None:
    check_shutdown(servers, number)


def test_the_check_detects_a_server_that_stops_at_once(servers: Servers) -> None:
    must_fail(lambda: check_shutdown(servers, signal.SIGTERM, constants={"SHUTDOWN_SECONDS": 0}))


def test_a_model_that_hangs_does_not_prevent_the_shutdown(servers: Servers) -> None:
    server = servers.start(seconds=60, limits={"together": 2})
    responses = stop_under_load(servers, server, signal.SIGINT, signal.SIGINT)
    assert len(responses) == 5
    for response in responses:
        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert response.json == {"error": "the server has been stopped"}
    assert server.log.read_text().splitlines() == [
        "Cancel 5 running task(s), timeout graceful shutdown exceeded"
    ]


@pytest.mark.torture
def test_the_check_detects_a_server_that_does_not_stop(servers: Servers) -> None:
    server = servers.start(seconds=60, limits={"together": 2}, constants={"SHUTDOWN_SECONDS": 6})
    must_fail(stop_under_load, servers, server, signal.SIGTERM)
