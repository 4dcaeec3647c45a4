"""Who waits for the model: how many, for how long, and whose answer is whose."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from app_client import (
    HOST,
    JSON,
    TEXT,
    Answer,
    Client,
    FrailLook,
    GatedLook,
    scope,
    talk,
    until,
    until_waiting,
)
from starlette.applications import Starlette
from support import goes_red

import limelight.view.server.app as serve_module
from limelight.view.record import Record
from limelight.view.server.app import application
from limelight.view.server.queue import Full, Given, Limits, Line, Place


def test_what_waits_is_computed_together_and_each_gets_its_own_answer() -> None:
    look, words = GatedLook(), [f"word {number}" for number in range(12)]

    async def conversation(client: Client) -> list[Answer]:
        first = asyncio.create_task(client.ask("first"))
        await until(lambda: look.seen)
        rest = [asyncio.create_task(client.ask(word)) for word in words]
        await until_waiting(client, 12)
        look.gate.set()
        return await asyncio.gather(first, *rest)

    answers = talk(application(look, TEXT), conversation)
    assert [len(several) for several in look.seen] == [1, 8, 4]
    assert [answer.json for answer in answers] == [
        json.loads(look.look(word).model_dump_json()) for word in ("first", *words)
    ]


def test_a_full_line_is_answered_by_503_and_when_to_try_again() -> None:
    look = GatedLook()

    async def conversation(client: Client) -> None:
        first = asyncio.create_task(client.ask("first"))
        await until(lambda: look.seen)
        # The body of the third does not arrive: it has a place nevertheless.
        others = (client.ask("second"), client.send("POST", "/api/look", None, (HOST, JSON)))
        waiting = [asyncio.create_task(other) for other in others]
        await until_waiting(client, 2)
        refused = await client.ask("fourth")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        look.gate.set()
        assert (await first).status == 200
        assert [answer.status for answer in await asyncio.gather(*waiting)] == [200, 408]
        assert (await client.ask("fourth")).status == 200

    talk(application(look, TEXT, Limits(waiting=2, body_seconds=0.3)), conversation)


class GenerousLine(Line):
    """The broken variant: counts only those whose input is there, and who have been woken since."""

    @contextmanager
    def place(self) -> Iterator[Place]:
        if len(self._ready) >= self._limits.waiting:
            raise Full
        yield Place(asyncio.get_running_loop().create_future())

    @property
    def waiting(self) -> int:
        return len(self._ready)


def check_bound(line: type[Line], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those who come in one and the same moment, no more are let in."""
    look = GatedLook()
    monkeypatch.setattr(serve_module, "Line", line)

    async def conversation(client: Client) -> list[int]:
        first = asyncio.create_task(client.ask("first"))
        await until(lambda: look.seen)
        rest = [asyncio.create_task(client.ask(f"word {number}")) for number in range(43)]
        while sum(one.done() for one in rest) + (await client.get("/api/health")).json["waiting"] < 43:
            await asyncio.sleep(0.002)
        look.gate.set()
        return [answer.status for answer in await asyncio.gather(first, *rest)]

    statuses = talk(application(look, TEXT, Limits(waiting=5)), conversation)
    assert sorted(statuses) == [200] * 6 + [503] * 38


def test_the_line_is_never_longer_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    check_bound(Line, monkeypatch)
    goes_red(check_bound, GenerousLine, monkeypatch)


class StubbornLine(Line):
    """The broken variant: who has given up stays in the line."""

    def _leave(self, place: Place) -> None:
        pass


def check_gives_up(line: type[Line], monkeypatch: pytest.MonkeyPatch) -> None:
    """After their time, and when whoever asked has gone: then nothing is computed for them."""
    look = GatedLook()
    monkeypatch.setattr(serve_module, "Line", line)
    app = application(look, TEXT, Limits(seconds=0.2))

    async def leave(app: Starlette) -> None:
        body = b'{"given": "gone"}'
        messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return messages.pop()

        async def send(message: Any) -> None:
            pass

        await app(scope("POST", "/api/look", (HOST, JSON)), receive, send)

    async def conversation(client: Client) -> None:
        first = asyncio.create_task(client.ask("first"))
        await until(lambda: look.seen)
        await leave(app)
        assert [answer.status for answer in await asyncio.gather(first, client.ask("second"))] == [504, 504]
        waiting = (await client.get("/api/health")).json["waiting"]
        look.gate.set()
        assert (await client.ask("third")).status == 200
        assert waiting == 0
        assert look.seen == [["first"], ["third"]]

    talk(app, conversation)


def test_whoever_gives_up_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    check_gives_up(Line, monkeypatch)
    goes_red(check_gives_up, StubbornLine, monkeypatch)


class FragileLine(Line):
    """The broken variant: an input that breaks the model breaks the answers to its neighbours."""

    def _results(self, several: Sequence[Given]) -> list[Record | Exception]:
        try:
            return [*self._look(several)]
        except Exception as error:
            return [error] * len(several)


def check_isolation(line: type[Line], monkeypatch: pytest.MonkeyPatch) -> None:
    class Look(GatedLook, FrailLook):
        pass

    look = Look()
    monkeypatch.setattr(serve_module, "Line", line)

    async def conversation(client: Client) -> list[int]:
        first = asyncio.create_task(client.ask("first"))
        await until(lambda: look.seen)
        rest = [asyncio.create_task(client.ask(word)) for word in ("a", "poison", "b")]
        await until_waiting(client, 3)
        look.gate.set()
        return [answer.status for answer in await asyncio.gather(first, *rest)]

    assert talk(application(look, TEXT), conversation) == [200, 200, 500, 200]
    assert look.seen[1] == ["a", "poison", "b"]


def test_an_input_that_breaks_the_model_breaks_no_other_answer_and_is_one_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    check_isolation(Line, monkeypatch)
    assert capfd.readouterr().err == "limelight: POST '/api/look': KeyError: 'a\\nbug'\n"
    goes_red(check_isolation, FragileLine, monkeypatch)
