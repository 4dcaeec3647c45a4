"""Servers in processes of their own, and a client that can send arbitrary bytes."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app_client import HttpResponse
from support import not_none

SERVERS = Path(__file__).parent / "forked_servers.py"
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Server:
    """A running server: its process id, port and log file."""

    process: int
    port: int
    log: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def exchange(self, request: bytes) -> HttpResponse:
        """Send one request on a new connection, and return the response."""
        with self.connect() as connection:
            with contextlib.suppress(ConnectionError):  # the server may refuse before everything is sent
                connection.sendall(request)
            return read_response(connection)

    def predict(self, given: str) -> HttpResponse:
        return self.exchange(post(self.port, json.dumps({"given": given}).encode()))

    def get(self, path: str) -> HttpResponse:
        return self.exchange(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())

    def memory(self) -> int:
        """Return the peak memory of the process in bytes."""
        status = Path(f"/proc/{self.process}/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    def sockets(self) -> int:
        """Return the number of open sockets."""
        links = [os.readlink(link) for link in Path(f"/proc/{self.process}/fd").iterdir()]
        return sum(link.startswith("socket:") for link in links)


class Servers:
    """Starts servers, and stops those that a test leaves running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[int] = []
        self._program = subprocess.Popen(
            [sys.executable, str(SERVERS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def start(self, kind: str = "text", **options: Any) -> Server:
        log = self._folder / f"{random.randrange(10**9)}.log"
        process, address = self._request({"kind": kind, "log": str(log), **options}).split()
        self._running.append(int(process))
        return Server(int(process), int(address.rstrip("/").rsplit(":")[-1]), log)

    def wait(self, server: Server) -> int:
        """Wait for the end of the server, and return its exit code."""
        self._running.remove(server.process)
        return int(self._request({"wait": server.process}))

    def end(self) -> None:
        for process in self._running:
            os.kill(process, signal.SIGKILL)
            self._request({"wait": process})
        self._running.clear()

    def close(self) -> None:
        self.end()
        self._program.communicate(timeout=30)

    def _request(self, command: dict[str, Any]) -> str:
        not_none(self._program.stdin).write(json.dumps(command) + "\n")
        not_none(self._program.stdin).flush()
        return not_none(self._program.stdout).readline()


def post(port: int, body: bytes, kind: str = "application/json", length: int | None = None) -> bytes:
    content_length = len(body) if length is None else length
    head = f"POST /api/record HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {content_length}\r\n\r\n".encode() + body


def in_chunks(port: int, body: bytes) -> bytes:
    head = post(port, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + LAST_CHUNK


def read_response(connection: socket.socket) -> HttpResponse:
    received = b""
    while b"\r\n\r\n" not in received and (part := connection.recv(65_536)):
        received += part
    if not received:
        raise ConnectionResetError("closed without a response")
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65_536)
    return HttpResponse(int(status.split()[1]), headers, body)
