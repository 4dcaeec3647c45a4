"""Connections on 127.0.0.1 that cannot be held without asking, until a signal ends them."""

import asyncio
import gc
import json
import os
import socket
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from limelight.errors import WrongInput, wrong
from limelight.view.server.security import HEADERS, RETRY

HOST = "127.0.0.1"
LARGEST_HEAD = 16_384  # bytes of a request before its body
HEAD_SECONDS = 10.0  # in which a new connection must have sent that
NEXT_SECONDS = 5  # in which one that was answered must have asked again
READ_SECONDS = 10.0  # in which an answer must be read
LAST_SECONDS = 2  # in which requests are answered that were under way at the end
MOST_CONNECTIONS = 256  # well below the 1,024 files that a process may usually have open


class Connection(H11Protocol):
    """uvicorn's, which alone waits for ever: for the rest of a head, of what was refused, and for readers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again", RETRY)
        self.loop.call_later(HEAD_SECONDS, self._close_unless_asked, self.cycle)

    def on_response_complete(self) -> None:
        answered = self.cycle  # the next request may be here already, and begins in uvicorn's part
        super().on_response_complete()
        self.loop.call_later(NEXT_SECONDS, self._close_unless_asked, answered)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.loop.call_later(READ_SECONDS, self._abort_unless_read)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, "this is no valid HTTP request", {})

    def _close_unless_asked(self, last: Any) -> None:
        if self.cycle is last:
            self.transport.close()

    def _abort_unless_read(self) -> None:
        if self.flow.write_paused:
            self.transport.abort()

    def _refuse(self, status: HTTPStatus, reason: str, headers: dict[str, str]) -> None:
        """What is answered here never reaches the application, and carries the same headers."""
        body = json.dumps({"error": reason})
        own = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        head = [f"HTTP/1.1 {status.value} {status.phrase}"]
        head += [f"{name}: {value}" for name, value in (own | headers | HEADERS).items()]
        self.transport.write("\r\n".join([*head, "", body]).encode())
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's, which alone would not return after a signal, but raise it anew."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            print(f"http://{HOST}:{listener.getsockname()[1]}/", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await asyncio.sleep(0.05)  # whoever has been let in becomes a connection, which is then closed too
        await super().shutdown(sockets)


def run(app: ASGIApp, port: int) -> None:
    with _listen(port) as listener:
        server = Server(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                loop="asyncio",
                lifespan="on",
                backlog=MOST_CONNECTIONS,
                workers=1,  # whatever WEB_CONCURRENCY says
                proxy_headers=False,  # nobody stands between
                server_header=False,
                access_log=False,
                log_config=None,
                log_level="error",
                h11_max_incomplete_event_size=LARGEST_HEAD,
                timeout_keep_alive=NEXT_SECONDS,
                timeout_graceful_shutdown=LAST_SECONDS,
            )
        )
        gc.freeze()  # the model stays: to look through it for what can go would take a second, at the end too
        server.run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise wrong("port", port, "0 to 65,535; 0 is any free one")
    try:
        return socket.create_server((HOST, port), backlog=MOST_CONNECTIONS)
    except OSError as error:
        says = os.strerror(error.errno or 0).lower()
        raise WrongInput(f"port {port}: {says}; name another, or 0 for any free one") from None
