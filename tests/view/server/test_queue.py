"""The request queue: batches, limits, timeouts and failures."""

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
    Client,
    FailingModel,
    GatedModel,
    HttpResponse,
    run_client,
    scope,
    wait_for_queue,
    wait_until,
)
from starlette.applications import Starlette
from support import must_fail

import limelight.view.server.app as app_module
from limelight.view.record import Record
from limelight.view.server.app import create_app
from limelight.view.server.queue import Input, Limits, QueueFull, RequestQueue, Slot


def test_waiting_requests_are_computed_in_batches_and_each_gets_its_own_result() -> None:
    model, words = GatedModel(), [f"word {number}" for number in range(12)]

    async def scenario(client: Client) -> list[HttpResponse]:
        first = asyncio.create_task(client.predict("first"))
        await wait_until(lambda: model.batches)
        rest = [asyncio.create_task(client.predict(word)) for word in words]
        await wait_for_queue(client, 12)
        model.gate.set()
        return await asyncio.gather(first, *rest)

    responses = run_client(create_app(model, TEXT), scenario)
    assert [len(inputs) for inputs in model.batches] == [1, 8, 4]
    expected = [model.record(word) for word in ("first", *words)]
    assert [response.json for response in responses] == [
        json.loads(record.model_dump_json()) for record in expected if isinstance(record, Record)
    ]


def test_a_full_queue_gives_status_503_with_retry_after() -> None:
    model = GatedModel()

    async def scenario(client: Client) -> None:
        first = asyncio.create_task(client.predict("first"))
        await wait_until(lambda: model.batches)
        # The body of the third request never arrives, but the request occupies a slot.
        others = (client.predict("second"), client.send("POST", "/api/record", None, (HOST, JSON)))
        waiting = [asyncio.create_task(other) for other in others]
        await wait_for_queue(client, 2)
        refused = await client.predict("fourth")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        model.gate.set()
        assert (await first).status == 200
        assert [response.status for response in await asyncio.gather(*waiting)] == [200, 408]
        assert (await client.predict("fourth")).status == 200

    run_client(create_app(model, TEXT, Limits(waiting=2, body_seconds=0.3)), scenario)


class UnboundedQueue(RequestQueue):
    """A broken variant: counts only requests whose input has arrived."""

    @contextmanager
    def reserve(self) -> Iterator[Slot]:
        if len(self._ready) >= self._limits.waiting:
            raise QueueFull
        yield Slot(asyncio.get_running_loop().create_future())

    @property
    def waiting(self) -> int:
        return len(self._ready)


def check_bound(queue: type[RequestQueue], monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit also holds for requests that arrive at the same moment."""
    model = GatedModel()
    monkeypatch.setattr(app_module, "RequestQueue", queue)

    async def scenario(client: Client) -> list[int]:
        first = asyncio.create_task(client.predict("first"))
        await wait_until(lambda: model.batches)
        rest = [asyncio.create_task(client.predict(f"word {number}")) for number in range(43)]
        while sum(one.done() for one in rest) + (await client.get("/api/health")).json["waiting"] < 43:
            await asyncio.sleep(0.002)
        model.gate.set()
        return [response.status for response in await asyncio.gather(first, *rest)]

    statuses = run_client(create_app(model, TEXT, Limits(waiting=5)), scenario)
    assert sorted(statuses) == [200] * 6 + [503] * 38


def test_the_queue_never_exceeds_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    check_bound(RequestQueue, monkeypatch)
    must_fail(check_bound, UnboundedQueue, monkeypatch)


class KeepingQueue(RequestQueue):
    """A broken variant: does not remove requests that were given up."""

    def _remove(self, slot: Slot) -> None:
        pass


def check_abandoned_requests(queue: type[RequestQueue], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed for a request after its timeout, or after its client has disconnected."""
    model = GatedModel()
    monkeypatch.setattr(app_module, "RequestQueue", queue)
    app = create_app(model, TEXT, Limits(seconds=0.2))

    async def disconnect(app: Starlette) -> None:
        body = b'{"given": "disconnected"}'
        messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return messages.pop()

        async def send(message: Any) -> None:
            pass

        await app(scope("POST", "/api/record", (HOST, JSON)), receive, send)

    async def scenario(client: Client) -> None:
        first = asyncio.create_task(client.predict("first"))
        await wait_until(lambda: model.batches)
        await disconnect(app)
        assert [response.status for response in await asyncio.gather(first, client.predict("second"))] == [
            504,
            504,
        ]
        waiting = (await client.get("/api/health")).json["waiting"]
        model.gate.set()
        assert (await client.predict("third")).status == 200
        assert waiting == 0
        assert model.batches == [["first"], ["third"]]

    run_client(app, scenario)


def test_abandoned_requests_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    check_abandoned_requests(RequestQueue, monkeypatch)
    must_fail(check_abandoned_requests, KeepingQueue, monkeypatch)


class FragileQueue(RequestQueue):
    """A broken variant: one failing input fails its whole batch."""

    def _results(self, inputs: Sequence[Input]) -> list[Record | Exception]:
        try:
            return [*self._make_records(inputs)]
        except Exception as error:
            return [error] * len(inputs)


def check_isolation(queue: type[RequestQueue], monkeypatch: pytest.MonkeyPatch) -> None:
    class GatedFailingModel(GatedModel, FailingModel):
        pass

    model = GatedFailingModel()
    monkeypatch.setattr(app_module, "RequestQueue", queue)

    async def scenario(client: Client) -> list[int]:
        first = asyncio.create_task(client.predict("first"))
        await wait_until(lambda: model.batches)
        rest = [asyncio.create_task(client.predict(word)) for word in ("a", "poison", "b")]
        await wait_for_queue(client, 3)
        model.gate.set()
        return [response.status for response in await asyncio.gather(first, *rest)]

    assert run_client(create_app(model, TEXT), scenario) == [200, 200, 500, 200]
    assert model.batches[1] == ["a", "poison", "b"]


def test_a_failing_input_fails_no_other_request_and_is_logged_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    check_isolation(RequestQueue, monkeypatch)
    assert capfd.readouterr().err == "limelight: POST '/api/record': KeyError: 'a\\nbug'\n"
    must_fail(check_isolation, FragileQueue, monkeypatch)
