"""The application of the server, tested without a network: routes, errors, headers, access."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from app_client import (
    GROWING,
    HOST,
    IMAGE,
    JSON,
    PORT,
    TEXT,
    Client,
    FailingModel,
    HttpResponse,
    TinyModel,
    run_client,
)
from drawn import noise, save
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from support import must_fail, mutated

import limelight.view.server.app as app_module
from limelight.view.changes import Change, Changed
from limelight.view.page import WEB_FOLDER
from limelight.view.prompt import Prompt
from limelight.view.record import Record
from limelight.view.server.app import CONTENT_TYPES, create_app
from limelight.view.server.queue import Limits
from limelight.view.server.security import Guard, refusal_reason

PROMISED = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


# Responses


def test_the_page_and_its_files_are_served_with_their_content_types() -> None:
    async def scenario(client: Client) -> None:
        for path in WEB_FOLDER.rglob("*"):
            if path.suffix in CONTENT_TYPES:
                response = await client.get(f"/{path.relative_to(WEB_FOLDER).as_posix()}")
                assert (response.status, response.body) == (200, path.read_bytes())
                assert response.headers["content-type"] == CONTENT_TYPES[path.suffix]
        assert (await client.get("/")).body == (WEB_FOLDER / "index.html").read_bytes()
        assert (await client.send("HEAD", "/")).status == 200

    run_client(create_app(TinyModel(), TEXT), scenario)


def test_about_describes_the_model_and_its_inputs() -> None:
    response = run_client(create_app(TinyModel(), TEXT), lambda client: client.get("/api/about"))
    assert response.json == {
        "name": "letters",
        "kind": "text",
        "sample": "abc",
        "longest": 23,
        "generates": False,
        "examples": ["abc", "cab"],
        "first": None,
    }


def test_the_response_is_the_record_of_the_model() -> None:
    model = TinyModel()
    response = run_client(create_app(model, TEXT), lambda client: client.predict("limelight"))
    assert response.status == 200
    assert Record.model_validate_json(response.body) == model.record("limelight")
    assert response.json["sides"]["input"][0] == str(ord("l"))


@pytest.mark.parametrize("kind", [b"image/png", b"image/svg+xml; a=b", b"Application/Octet-Stream"])
def test_an_image_is_sent_as_the_raw_body(kind: bytes) -> None:
    model, image = TinyModel(), save(noise())
    headers = (HOST, (b"content-type", kind))
    response = run_client(
        create_app(model, IMAGE), lambda client: client.send("POST", "/api/record", image, headers)
    )
    assert Record.model_validate_json(response.body) == model.record(image)


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
def test_invalid_input_gets_a_one_line_error_with_the_reason(body: bytes, reason: str) -> None:
    headers = (HOST, JSON)
    response = run_client(
        create_app(TinyModel(), TEXT), lambda client: client.send("POST", "/api/record", body, headers)
    )
    assert response.status == 400
    assert reason in response.json["error"]
    assert "\n" not in response.json["error"]
    assert len(response.json["error"]) <= 300


def send_changes(changes: str) -> HttpResponse:
    path = f"/api/record?changes={quote(changes)}"
    return run_client(
        create_app(TinyModel(), TEXT),
        lambda client: client.send("POST", path, b'{"given": "abc"}', (HOST, JSON)),
    )


def test_changes_of_the_attention_are_sent_in_the_address() -> None:
    response = send_changes('[{"name": "attention", "head": 1}, {"name": "attention", "query": 2, "key": 0}]')
    changes = (Change(name="attention", head=1), Change(name="attention", query=2, key=0))
    assert Record.model_validate_json(response.body) == TinyModel().record(Changed("abc", changes))
    assert send_changes("[]").json["sides"]["input"] == ["97", "98", "99"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("", "changes: Invalid JSON"),
        ("{}", "changes: Input should be a valid array"),
        ('[{"head": 1}]', "changes.0.name: Field required"),
        ('[{"name": "a", "head": -1}]', "changes.0.head: Input should be greater than or equal to 0"),
        ('[{"name": "a", "query": 1}]', "changes: a blocked cell has a query and a key"),
        (json.dumps([{"name": "a"}] * 257), "changes: "),
    ],
)
def test_invalid_changes_get_a_one_line_error(changes: str, reason: str) -> None:
    response = send_changes(changes)
    assert response.status == 400
    assert reason in response.json["error"]
    assert "\n" not in response.json["error"]


def test_a_text_that_grows_is_sent_with_its_tokens() -> None:
    model = TinyModel()
    prompt = Prompt(given="abc", tokens=(101, 7), temperature=0.5, seed=3)
    response = run_client(
        create_app(model, GROWING),
        lambda client: client.send("POST", "/api/record", prompt.model_dump_json().encode(), (HOST, JSON)),
    )
    assert Record.model_validate_json(response.body) == model.record(prompt)
    assert response.json["sides"]["input"] == ["97", "98", "99", "101", "7"]


PROMPTS = {
    b"{}": "given: Field required",
    b'{"given": "a", "tokens": 3}': "tokens: Input should be a valid array",
    b'{"given": "a", "tokens": [3, -1]}': "tokens.1: Input should be greater than or equal to 0",
    b'{"given": "a", "tokens": [1.5]}': "tokens.0: Input should be a valid integer",
    b'{"given": "a", "tokens": [true]}': "tokens.0: Input should be a valid integer",
    b'{"given": "a", "temperature": -1}': "temperature: Input should be greater than or equal to 0",
    b'{"given": "a", "temperature": "hot"}': "temperature: Input should be a valid number",
    b'{"given": "a", "temperature": NaN}': "temperature: Input should be",
    b'{"given": "a", "temperature": 1e999}': "temperature: Input should be a finite number",
    b'{"given": "a", "seed": -1}': "seed: Input should be greater than or equal to 0",
    b'{"given": "a", "seed": 9223372036854775808}': "seed: Input should be less than or equal to",
    b'{"given": "a", "top_q": 1}': "top_q: Extra inputs are not permitted",
}


@pytest.mark.parametrize(("body", "reason"), PROMPTS.items(), ids=range(len(PROMPTS)))
def test_invalid_fields_of_a_growing_text_get_a_one_line_error(body: bytes, reason: str) -> None:
    response = run_client(
        create_app(TinyModel(), GROWING),
        lambda client: client.send("POST", "/api/record", body, (HOST, JSON)),
    )
    assert (response.status, list(response.json)) == (400, ["error"])
    assert reason in response.json["error"]
    assert "\n" not in response.json["error"]


def test_a_model_that_does_not_generate_refuses_tokens() -> None:
    body = Prompt(given="abc", tokens=(5,)).model_dump_json(exclude_defaults=True).encode()
    response = run_client(
        create_app(TinyModel(), TEXT), lambda client: client.send("POST", "/api/record", body, (HOST, JSON))
    )
    assert (response.status, response.json["error"]) == (400, "tokens: Extra inputs are not permitted")


REFUSALS = [
    ("GET", "/nothing", b"", (HOST,), 404),
    ("GET", "/api/about/", b"", (HOST,), 404),
    ("POST", "/", b"", (HOST,), 405),
    ("DELETE", "/api/about", b"", (HOST,), 405),
    ("GET", "/api/record", b"", (HOST,), 405),
    ("POST", "/api/record", b'{"given": "a"}', (HOST,), 415),
    ("POST", "/api/record", b'{"given": "a"}', (HOST, (b"content-type", b"text/plain")), 415),
    ("POST", "/api/record", b"x" * 65_537, (HOST, JSON), 413),
    ("POST", "/api/record", None, (HOST, JSON), 408),
    ("POST", "/api/record", b"{", (HOST, JSON), 400),
    ("GET", "/", b"", ((b"host", b"limelight.example"),), 403),
]


@pytest.mark.parametrize(("method", "target", "body", "headers", "status"), REFUSALS)
def test_every_error_response_is_json_with_a_reason(
    method: str, target: str, body: bytes | None, headers: Any, status: int
) -> None:
    app = create_app(TinyModel(), TEXT, Limits(body_seconds=0.05))
    response = run_client(app, lambda client: client.send(method, target, body, headers))
    assert response.status == status
    assert response.headers["content-type"] == "application/json"
    assert list(response.json) == ["error"]


def test_the_server_of_an_image_model_refuses_json() -> None:
    app = create_app(TinyModel(), IMAGE)
    response = run_client(app, lambda client: client.send("POST", "/api/record", b"{}", (HOST, JSON)))
    assert response.status == 415


# S2: paths

SECRET = b"limelight-secret-"


def hostile_targets(secret: Path) -> list[str]:
    """Return request targets that try to reach a file outside the served folder."""
    up = "../" * 12
    plain = [f"/{up}{secret}", f"//{secret}", str(secret), f"/web/{up}{secret}", f"/index.html/{up}{secret}"]
    inside = ["/../page.py", "/./../record.py", "/web/../../errors.py", "/__init__.py", "/.", "/..", "//"]
    paths = plain + inside
    coded = [path.replace("..", "%2e%2e") for path in paths] + [path.replace("/", "%2f") for path in paths]
    twice = [path.replace("..", "%252e%252e").replace("/", "%252f") for path in paths]
    slashes = [path.replace("/", "\\") for path in paths] + [path.replace("/", "%5c") for path in paths]
    ends = [f"/index.html{end}{secret}" for end in ("%00", "%00/", "\x00", "%0a", ";", "::$DATA", "/.")]
    urls = [f"file://{secret}", f"http://127.0.0.1{secret}", f"/?file={secret}", f"/#{secret}"]
    return paths + coded + twice + slashes + ends + urls


def check_paths(app: Starlette, secret: Path) -> None:
    """Every response is a file of the page, or 404."""
    known = {path.read_bytes() for path in WEB_FOLDER.rglob("*") if path.is_file()}

    async def scenario(client: Client) -> None:
        for target in hostile_targets(secret):
            response = await client.get(target)
            assert SECRET not in response.body, target
            assert response.body in known if response.status == 200 else response.status == 404, target

    run_client(app, scenario)


def joining_paths() -> Starlette:
    """A broken variant: serves every file that the path leads to."""

    async def read(request: Request) -> Response:
        path = Path(f"{WEB_FOLDER}/{request.path_params['path']}".replace("\x00", ""))
        return PlainTextResponse(path.read_bytes() if path.is_file() else b"", 200 if path.is_file() else 404)

    return Starlette(routes=[Route("/{path:path}", read)])


def test_no_path_leads_to_a_file_outside_the_page(tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_bytes(SECRET * 3)
    check_paths(create_app(TinyModel(), TEXT), secret)
    must_fail(check_paths, joining_paths(), secret)


# S3: access; the other tests are in test_process.py with real sockets, where port 80 cannot be used


def test_an_origin_without_a_port_means_port_80() -> None:
    headers = Headers({"host": "localhost", "origin": "http://localhost"})
    assert refusal_reason(headers, 80) == ""
    assert refusal_reason(headers, PORT) == "the Origin header is not the address of this server"


# S4: headers


def check_headers(app: Starlette) -> None:
    async def scenario(client: Client) -> None:
        for method, target, body, headers, status in REFUSALS:
            check_promised_headers(await client.send(method, target, body, headers), status)
        for target in ("/", "/index.html", "/api/about", "/api/health"):
            check_promised_headers(await client.get(target), 200)
        check_promised_headers(await client.predict("limelight"), 200)
        check_promised_headers(await client.predict("poison"), 500)

    run_client(app, scenario)


def check_promised_headers(response: HttpResponse, status: int) -> None:
    assert response.status == status
    assert {name: response.headers.get(name) for name in PROMISED} == PROMISED


class BareGuard(Guard):
    """A broken variant: adds no headers."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


def test_every_response_has_the_promised_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(body_seconds=0.05)
    check_headers(create_app(FailingModel(), TEXT, limits))
    monkeypatch.setattr(app_module, "Guard", BareGuard)
    must_fail(check_headers, create_app(FailingModel(), TEXT, limits))


# S6: fuzzing

MARKS = [b"{", b"}", b'"', b":", b"given", b"\\u0000", b"\\ud800", b"\xff", b"\x00", b"\n", b"[", b"1e999"]
METHODS = ["GET", "POST", "HEAD", "PUT", "OPTIONS", "TRACE", "UNKNOWN", ""]
TARGETS = [
    "/api/record",
    "/api/about",
    "/api/health",
    "/",
    "/style.css",
    "/api/record?given=a",
    "*",
    "http://a/",
]


def fuzzed(draw: random.Random, content: bytes, kind: bytes) -> tuple[str, str, bytes, Any]:
    """Return a request with some valid, some damaged and some random parts."""

    def damaged(value: bytes, share: float) -> bytes:
        return mutated(value, MARKS, draw) if draw.random() < share else value

    method = draw.choice(METHODS) if draw.random() < 0.3 else "POST"
    target = draw.choice(TARGETS) if draw.random() < 0.3 else "/api/record"
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

    async def scenario(client: Client) -> None:
        for _ in range(count):
            request = fuzzed(draw, draw.choice(contents), kind)
            response = await client.send(*request)
            assert response.status < 500, request
            if response.status >= 400:
                assert list(json.loads(response.body)) == ["error"]
            found.add(response.status)

    run_client(app, scenario)
    assert {200, 400, 403, 404, 405, 415} <= found


TEXTS = [json.dumps({"given": given}).encode() for given in ("abc", "limelight", "é \u2028 😀", "a" * 23)]


class UncheckedHandlers(app_module.Handlers):
    """A broken variant: does not validate the body."""

    async def _read(self, request: Request) -> str | bytes | Prompt:
        return json.loads(await self._read_body(request, 10_000))["given"]


def check_fuzz_of_both_kinds(count: int) -> None:
    check_fuzz(create_app(TinyModel(), TEXT), count, TEXTS, b"application/json")
    check_fuzz(create_app(TinyModel(), IMAGE), count, [save(noise()), save(noise(), "GIF")], b"image/png")


def test_a_thousand_fuzzed_requests_get_a_response_and_no_server_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_fuzz_of_both_kinds(503)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(app_module, "Handlers", UncheckedHandlers)
    must_fail(check_fuzz, create_app(TinyModel(), TEXT), 503, TEXTS, b"application/json")


@pytest.mark.torture
def test_ten_thousand_fuzzed_requests_get_a_response_and_no_server_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    check_fuzz_of_both_kinds(5_003)
    assert capfd.readouterr().err == ""
