"""A server that other machines can reach: every request needs the token."""

import json
from typing import Any

import pytest
from app_client import JSON, TEXT, Client, HttpResponse, TinyModel, run_client
from support import must_fail

from limelight.errors import WrongInput
from limelight.view.server.app import check_access, create_app
from limelight.view.server.security import COOKIE

SECRET = "correct-horse-battery"
ANY_HOST = (b"host", b"192.168.1.7:8765")
BODY = json.dumps({"given": "abc"}).encode()


def send(
    method: str, target: str, *headers: tuple[bytes, bytes], body: bytes = b"", token: str = SECRET
) -> HttpResponse:
    async def scenario(client: Client) -> HttpResponse:
        return await client.send(method, target, body, (ANY_HOST, *headers))

    response: HttpResponse = run_client(create_app(TinyModel(), TEXT, token=token), scenario)
    return response


def bearer(token: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {token}".encode()


def cookie(token: str) -> tuple[bytes, bytes]:
    return b"cookie", f"other=1; {COOKIE}={token}".encode()


def check_refused(*headers: tuple[bytes, bytes], target: str = "/api/about", token: str = SECRET) -> None:
    response = send("GET", target, *headers, token=token)
    assert response.status == 401
    assert "set-cookie" not in response.headers
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("target", ["/", "/style.css", "/api/about", "/api/health", "/nothing"])
def test_without_the_token_nothing_is_served(target: str) -> None:
    check_refused(target=target)


@pytest.mark.parametrize("wrong", ["", "correct-horse-batter", SECRET + "y", SECRET.upper()])
def test_a_wrong_token_is_refused(wrong: str) -> None:
    check_refused(bearer(wrong))
    check_refused(cookie(wrong))
    check_refused(target=f"/?token={wrong}")
    must_fail(check_refused, bearer(SECRET))


def test_the_address_with_the_token_opens_the_page_which_then_has_a_cookie() -> None:
    page = send("GET", f"/?token={SECRET}")
    assert page.status == 200
    stored = page.headers["set-cookie"]
    assert stored == f"{COOKIE}={SECRET}; HttpOnly; SameSite=Strict; Path=/"
    for target in ("/style.css", "/api/about"):
        assert send("GET", target, (b"cookie", stored.split(";")[0].encode())).status == 200


def test_programs_send_the_token_in_a_header() -> None:
    response = send("POST", "/api/record", JSON, bearer(SECRET), body=BODY)
    assert response.status == 200
    assert response.json["given"] == "abc"


@pytest.mark.parametrize(
    "header", [(b"origin", b"http://evil.example"), (b"sec-fetch-site", b"cross-site")], ids=str
)
def test_pages_of_other_sites_are_refused_even_with_the_cookie(header: tuple[bytes, bytes]) -> None:
    assert send("GET", "/api/about", cookie(SECRET), header).status == 403
    own = (b"origin", b"http://192.168.1.7:8765")
    assert send("GET", "/api/about", cookie(SECRET), own).status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.org", ""])
def test_an_address_that_others_can_reach_needs_a_token(host: str) -> None:
    with pytest.raises(WrongInput, match="protect it with --token TOKEN"):
        check_access(host, "")
    check_access(host, SECRET)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_this_machine_needs_no_token(host: str) -> None:
    check_access(host, "")


@pytest.mark.parametrize("token", ["short", "with spaces in between", "semicolon;;;;;;;;;;;"])
def test_a_token_that_is_easy_to_guess_or_needs_escapes_is_refused(token: Any) -> None:
    with pytest.raises(WrongInput, match="at least 16 letters"):
        check_access("0.0.0.0", token)
