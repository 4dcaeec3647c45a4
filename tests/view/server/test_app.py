"""The server's application, without a network: what it answers, and to whom."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from app_client import HOST, IMAGE, JSON, PORT, TEXT, Answer, Client, FrailLook, TinyLook, talk
from drawn import noise, save
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from support import goes_red, mutated

import limelight.view.server.app as serve_module
from limelight.view.record import Record
from limelight.view.server.app import TYPES, WEB, application
from limelight.view.server.queue import Given, Limits
from limelight.view.server.security import Guard, stranger

PROMISED = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


# What is answered.


def test_the_page_and_its_files_are_there_with_their_types() -> None:
    async def conversation(client: Client) -> None:
        for path in WEB.rglob("*"):
            if path.suffix in TYPES:
                answer = await client.get(f"/{path.relative_to(WEB).as_posix()}")
                assert (answer.status, answer.body) == (200, path.read_bytes())
                assert answer.headers["content-type"] == TYPES[path.suffix]
        assert (await client.get("/")).body == (WEB / "index.html").read_bytes()
        assert (await client.send("HEAD", "/")).status == 200

    talk(application(TinyLook(), TEXT), conversation)


def test_a_page_is_told_what_it_may_ask() -> None:
    answer = talk(application(TinyLook(), TEXT), lambda client: client.get("/api/about"))
    assert answer.json == {
        "name": "letters",
        "kind": "text",
        "sample": "abc",
        "longest": 23,
        "examples": ["abc", "cab"],
        "first": None,
    }


def test_the_answer_is_the_models_record() -> None:
    look = TinyLook()
    answer = talk(application(look, TEXT), lambda client: client.ask("limelight"))
    assert answer.status == 200
    assert Record.model_validate_json(answer.body) == look.look("limelight")
    assert answer.json["sides"]["input"][0] == str(ord("l"))


@pytest.mark.parametrize("kind", [b"image/png", b"image/svg+xml; a=b", b"Application/Octet-Stream"])
def test_an_image_is_sent_as_it_is(kind: bytes) -> None:
    look, image = TinyLook(), save(noise())
    headers = (HOST, (b"content-type", kind))
    answer = talk(application(look, IMAGE), lambda client: client.send("POST", "/api/look", image, headers))
    assert Record.model_validate_json(answer.body) == look.look(image)


BODIES = {
    b"": "the body: Invalid JSON: EOF while parsing",
    b"[]": "the body: Input should be an object",
    b'{"given": 3}': "given: Input should be a valid string",
    b'{"given": "a", "more": 1}': "more: Extra inputs are not permitted",
    b'{"given": "\\ud800"}': "Invalid JSON: unexpected end of hex escape",
    b'{"given": "\xff"}': "Invalid JSON: invalid unicode code point",
    b"[" * 60_000: "Invalid JSON: recursion limit exceeded",
    b'{"given": ""}': "the input has 0 letters; allowed: 1 to 23",
    b'{"' + b"a" * 60_000 + b'": 1}': "given: Field required",
}


@pytest.mark.parametrize(("body", "reason"), BODIES.items(), ids=range(len(BODIES)))
def test_wrong_input_is_answered_by_one_line_that_says_what_is_wrong(body: bytes, reason: str) -> None:
    headers = (HOST, JSON)
    answer = talk(
        application(TinyLook(), TEXT), lambda client: client.send("POST", "/api/look", body, headers)
    )
    assert answer.status == 400
    assert reason in answer.json["error"]
    assert "\n" not in answer.json["error"]
    assert len(answer.json["error"]) <= 300


REFUSALS = [
    ("GET", "/nothing", b"", (HOST,), 404),
    ("GET", "/api/about/", b"", (HOST,), 404),
    ("POST", "/", b"", (HOST,), 405),
    ("DELETE", "/api/about", b"", (HOST,), 405),
    ("GET", "/api/look", b"", (HOST,), 405),
    ("POST", "/api/look", b'{"given": "a"}', (HOST,), 415),
    ("POST", "/api/look", b'{"given": "a"}', (HOST, (b"content-type", b"text/plain")), 415),
    ("POST", "/api/look", b"x" * 65_537, (HOST, JSON), 413),
    ("POST", "/api/look", None, (HOST, JSON), 408),
    ("POST", "/api/look", b"{", (HOST, JSON), 400),
    ("GET", "/", b"", ((b"host", b"limelight.example"),), 403),
]


@pytest.mark.parametrize(("method", "target", "body", "headers", "status"), REFUSALS)
def test_every_refusal_is_json_with_its_reason(
    method: str, target: str, body: bytes | None, headers: Any, status: int
) -> None:
    app = application(TinyLook(), TEXT, Limits(body_seconds=0.05))
    answer = talk(app, lambda client: client.send(method, target, body, headers))
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json) == ["error"]


def test_a_server_of_images_takes_no_json() -> None:
    app = application(TinyLook(), IMAGE)
    answer = talk(app, lambda client: client.send("POST", "/api/look", b"{}", (HOST, JSON)))
    assert answer.status == 415


# S2: what can be asked for.

SECRET = b"limelight-secret-"


def hostile_targets(secret: Path) -> list[str]:
    """Ways to say where a file is, from a folder that is served."""
    up = "../" * 12
    plain = [f"/{up}{secret}", f"//{secret}", str(secret), f"/web/{up}{secret}", f"/index.html/{up}{secret}"]
    inside = ["/../serve.py", "/./../guard.py", "/web/../../errors.py", "/__init__.py", "/.", "/..", "//"]
    paths = plain + inside
    coded = [path.replace("..", "%2e%2e") for path in paths] + [path.replace("/", "%2f") for path in paths]
    twice = [path.replace("..", "%252e%252e").replace("/", "%252f") for path in paths]
    slashes = [path.replace("/", "\\") for path in paths] + [path.replace("/", "%5c") for path in paths]
    ends = [f"/index.html{end}{secret}" for end in ("%00", "%00/", "\x00", "%0a", ";", "::$DATA", "/.")]
    urls = [f"file://{secret}", f"http://127.0.0.1{secret}", f"/?file={secret}", f"/#{secret}"]
    return paths + coded + twice + slashes + ends + urls


def check_paths(app: Starlette, secret: Path) -> None:
    """No answer is anything but a file of the page, or a refusal."""
    known = {path.read_bytes() for path in WEB.rglob("*") if path.is_file()}

    async def conversation(client: Client) -> None:
        for target in hostile_targets(secret):
            answer = await client.get(target)
            assert SECRET not in answer.body, target
            assert answer.body in known if answer.status == 200 else answer.status == 404, target

    talk(app, conversation)


def joining_paths() -> Starlette:
    """The broken variant: whatever the path leads to."""

    async def read(request: Request) -> Response:
        path = Path(f"{WEB}/{request.path_params['path']}".replace("\x00", ""))
        return PlainTextResponse(path.read_bytes() if path.is_file() else b"", 200 if path.is_file() else 404)

    return Starlette(routes=[Route("/{path:path}", read)])


def test_no_path_leads_out_of_the_page(tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_bytes(SECRET * 3)
    check_paths(application(TinyLook(), TEXT), secret)
    goes_red(check_paths, joining_paths(), secret)


# S3 stands beside, with real sockets; this port cannot be had there.


def test_an_origin_without_a_port_is_the_one_on_port_80() -> None:
    headers = Headers({"host": "localhost", "origin": "http://localhost"})
    assert stranger(headers, 80) == ""
    assert stranger(headers, PORT) == "the Origin is not this server"


# S4: what every answer carries.


def check_headers(app: Starlette) -> None:
    async def conversation(client: Client) -> None:
        for method, target, body, headers, status in REFUSALS:
            check_promised(await client.send(method, target, body, headers), status)
        for target in ("/", "/index.html", "/api/about", "/api/health"):
            check_promised(await client.get(target), 200)
        check_promised(await client.ask("limelight"), 200)
        check_promised(await client.ask("poison"), 500)

    talk(app, conversation)


def check_promised(answer: Answer, status: int) -> None:
    assert answer.status == status
    assert {name: answer.headers.get(name) for name in PROMISED} == PROMISED


class BareGuard(Guard):
    """The broken variant: refuses, but adds nothing where the application refuses."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


def test_every_answer_carries_the_promised_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(body_seconds=0.05)
    check_headers(application(FrailLook(), TEXT, limits))
    monkeypatch.setattr(serve_module, "Guard", BareGuard)
    goes_red(check_headers, application(FrailLook(), TEXT, limits))


# S6: whatever is sent.

MARKS = [b"{", b"}", b'"', b":", b"given", b"\\u0000", b"\\ud800", b"\xff", b"\x00", b"\n", b"[", b"1e999"]
METHODS = ["GET", "POST", "HEAD", "PUT", "OPTIONS", "TRACE", "LOOK", ""]
TARGETS = ["/api/look", "/api/about", "/api/health", "/", "/style.css", "/api/look?given=a", "*", "http://a/"]


def fuzzed(draw: random.Random, content: bytes, kind: bytes) -> tuple[str, str, bytes, Any]:
    """A request of which some parts are right, some damaged, some nonsense."""

    def damaged(value: bytes, share: float) -> bytes:
        return mutated(value, MARKS, draw) if draw.random() < share else value

    method = draw.choice(METHODS) if draw.random() < 0.3 else "POST"
    target = draw.choice(TARGETS) if draw.random() < 0.3 else "/api/look"
    headers = [
        (b"host", damaged(b"localhost:%d" % PORT, 0.1)),
        (b"content-type", damaged(kind, 0.1)),
        (b"content-length", damaged(b"17", 0.5)),
        (b"origin", damaged(b"http://localhost:%d" % PORT, 0.1)),
        (damaged(b"accept", 0.3), damaged(b"*/*", 0.3)),
    ]
    chosen = [header for header in headers if draw.random() < 0.95]
    path = damaged(target.encode(), 0.1).decode("utf-8", "replace")
    return method, path, damaged(content, 0.8), chosen


def check_fuzz(app: Starlette, count: int, contents: Sequence[bytes], kind: bytes, seed: int = 1) -> None:
    draw = random.Random(seed)
    found: set[int] = set()

    async def conversation(client: Client) -> None:
        for _ in range(count):
            request = fuzzed(draw, draw.choice(contents), kind)
            answer = await client.send(*request)
            assert answer.status < 500, request
            if answer.status >= 400:
                assert list(json.loads(answer.body)) == ["error"]
            found.add(answer.status)

    talk(app, conversation)
    assert {200, 400, 403, 404, 405, 415} <= found


TEXTS = [json.dumps({"given": given}).encode() for given in ("abc", "limelight", "é \u2028 😀", "a" * 23)]


class TrustingDesk(serve_module.Desk):
    """The broken variant: believes that what arrives is what was asked for."""

    async def _read(self, request: Request) -> Given:
        return json.loads(await self._read_body(request, 10_000))["given"]


def check_fuzz_of_both_kinds(count: int) -> None:
    check_fuzz(application(TinyLook(), TEXT), count, TEXTS, b"application/json")
    check_fuzz(application(TinyLook(), IMAGE), count, [save(noise()), save(noise(), "GIF")], b"image/png")


def test_a_thousand_fuzzed_requests_are_answered_or_refused(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_fuzz_of_both_kinds(503)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(serve_module, "Desk", TrustingDesk)
    goes_red(check_fuzz, application(TinyLook(), TEXT), 503, TEXTS, b"application/json")


@pytest.mark.torture
def test_ten_thousand_fuzzed_requests_are_answered_or_refused(capfd: pytest.CaptureFixture[str]) -> None:
    check_fuzz_of_both_kinds(5_003)
    assert capfd.readouterr().err == ""
