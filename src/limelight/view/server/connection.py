"""Sockets and signals: a uvicorn server with timeouts for slow clients."""

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
from limelight.view.server.security import RESPONSE_HEADERS, RETRY_AFTER

HOST = "127.0.0.1"
MAX_HEAD_BYTES = 16_384  # request line and headers
HEAD_SECONDS = 10.0  # time for a new connection to send its first request line and headers
KEEP_ALIVE_SECONDS = 5  # time from a response to the next request on the same connection
READ_SECONDS = 10.0  # time for a client to read a response
SHUTDOWN_SECONDS = 2  # time for running requests to finish after a signal
MAX_CONNECTIONS = 256  # well below 1,024, the usual limit of open files per process


class Connection(H11Protocol):
    """uvicorn's HTTP protocol with a limit on connections, and with timeouts where uvicorn has none: for
    the headers of the first request, for the rest of a refused body, and for a client that does not read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse the connection if there are too many; start the timeout for its first request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later", RETRY_AFTER)
        self.loop.call_later(HEAD_SECONDS, self._close_without_new_request, self.cycle)

    def on_response_complete(self) -> None:
        """Start the timeout for the next request."""
        finished = self.cycle  # before super(), which may start the next request
        super().on_response_complete()
        self.loop.call_later(KEEP_ALIVE_SECONDS, self._close_without_new_request, finished)

    def pause_writing(self) -> None:
        """Start the timeout for a client that does not read."""
        super().pause_writing()
        self.loop.call_later(READ_SECONDS, self._abort_unless_read)

    def send_400_response(self, msg: str) -> None:
        """Respond to bytes that are not HTTP."""
        self._refuse(HTTPStatus.BAD_REQUEST, "this is not a valid HTTP request", {})

    def _close_without_new_request(self, last: Any) -> None:
        if self.cycle is last:
            self.transport.close()

    def _abort_unless_read(self) -> None:
        if self.flow.write_paused:
            self.transport.abort()

    def _refuse(self, status: HTTPStatus, reason: str, headers: dict[str, str]) -> None:
        """Respond without the application, with the same headers as the application, and close."""
        body = json.dumps({"error": reason})
        own = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        head = [f"HTTP/1.1 {status.value} {status.phrase}"]
        head += [f"{name}: {value}" for name, value in (own | headers | RESPONSE_HEADERS).items()]
        self.transport.write("\r\n".join([*head, "", body]).encode())
        self.transport.close()


class Server(uvicorn.Server):
    """A uvicorn server that returns after a signal; uvicorn itself would raise the signal again."""

    def __init__(self, config: uvicorn.Config, host: str, token: str) -> None:
        super().__init__(config)
        self._host, self._token = host, token

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down after SIGINT or SIGTERM."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting connections, and print the address."""
        await super().startup(sockets)
        for listener in sockets or []:
            host = f"[{self._host}]" if ":" in self._host else self._host
            query = f"?token={self._token}" if self._token else ""
            print(f"http://{host}:{listener.getsockname()[1]}/{query}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and let running requests finish."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(0.05)  # connections that are being accepted must be known before they are closed
        await super().shutdown(sockets)


def run_server(app: ASGIApp, port: int, host: str = HOST, token: str = "") -> None:
    """Run the application until SIGINT or SIGTERM; port 0 chooses any free port.

    The printed address contains the token, if there is one.
    """
    with _listen(host, port) as listener:
        server = Server(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                loop="asyncio",
                lifespan="on",
                backlog=MAX_CONNECTIONS,
                workers=1,  # regardless of the environment variable WEB_CONCURRENCY
                proxy_headers=False,  # there is no proxy in front of a local server
                server_header=False,
                access_log=False,
                log_config=None,
                log_level="error",
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ),
            host,
            token,
        )
        # The model is never freed; without this, each garbage collection would traverse it for a second.
        gc.freeze()
        server.run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise wrong("port", port, "0 to 65,535; 0 chooses any free port")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=MAX_CONNECTIONS)
    except socket.gaierror:
        raise wrong(
            "--host", repr(host), "an address of this machine, such as 127.0.0.1 or 0.0.0.0"
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise WrongInput(f"port {port}: {reason}; choose another port, or 0 for any free port") from None
