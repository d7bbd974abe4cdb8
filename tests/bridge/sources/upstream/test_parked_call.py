"""Calls at a legacy server that wait for a modern client to come back with an answer. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import ScriptedTransport, Wire, legacy
from tests.support.upstreams import FakeRequest, running, text_of
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(question_timeout=100, max_parked=2, call_timeout=10, max_concurrency=20)
FORM: JSON = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
YES: JSON = {"action": "accept", "content": {}}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


class Modern(FakeRequest):
    """A request of a client that cannot be asked while it waits."""

    def __init__(self, client: object = None, *, brings: JSON | None = None, state: str | None = None) -> None:
        super().__init__()
        self.modern = True
        self.client = self if client is None else client
        self.client_capabilities = {"elicitation": {"form": {}}}
        self.input_responses = brings or {}
        self.request_state = state

    def again(self, asked: JSON, answer: JSON | None = None) -> Modern:
        """The request that brings the answer."""
        [key] = asked["inputRequests"]
        return Modern(self.client, brings={} if answer is None else {key: answer}, state=asked["requestState"])


async def ask_each(wire: Wire) -> None:
    """A server that asks once for every call, and answers with what it was told."""
    calls: dict[str, JSON] = {}
    while True:
        message = await wire.next()
        if message.get("method") == "tools/call":
            number = f"q{message['id']}"
            calls[number] = message
            wire.ask(number, "elicitation/create", FORM)
        elif message.get("id") in calls:
            told = message.get("result", {}).get("action", message.get("error", {}).get("message"))
            wire.answer(calls.pop(message["id"]), {"content": [{"type": "text", "text": told}]})


@asynccontextmanager
async def asking_server(limits: UpstreamLimits = LIMITS) -> AsyncGenerator[tuple[Upstream, Wire]]:
    transport = ScriptedTransport(legacy(ask_each), legacy(ask_each))
    async with running(StdioServerSpec("up", "none"), limits, transport=transport) as upstream:
        yield upstream, transport.wires[0]


def cancelled(wire: Wire) -> list[Any]:
    return [
        message["params"]["requestId"]
        for message in wire.received
        if message.get("method") == "notifications/cancelled"
    ]


@pytest.mark.requirement("S-31")
async def test_the_request_that_brings_the_answer_carries_on_with_the_same_call() -> None:
    async with asking_server() as (upstream, wire):
        first = Modern()
        asked = await upstream.call_tool("t", {}, first)
        assert (asked["resultType"], [item["params"] for item in asked["inputRequests"].values()]) == (
            "input_required",
            [FORM],
        )
        await anyio.sleep(50)  # longer than a call may be silent
        repeated = await upstream.call_tool("t", {}, first.again(asked))
        assert repeated["inputRequests"] == asked["inputRequests"], "no answer, so it is asked again"
        done = await upstream.call_tool("t", {}, first.again(repeated, YES))
        assert text_of(done) == "accept"
        assert [message["method"] for message in wire.received if message.get("method") == "tools/call"] == [
            "tools/call"
        ]
        with pytest.raises(ProtocolError, match="call again from the start"):
            await upstream.call_tool("t", {}, first.again(repeated, YES))


async def test_who_never_comes_back_is_not_waited_for_and_the_server_is_told() -> None:
    async with asking_server() as (upstream, wire):
        first = Modern()
        asked = await upstream.call_tool("t", {}, first)
        [call] = [message["id"] for message in wire.received if message.get("method") == "tools/call"]
        await anyio.sleep(LIMITS.question_timeout - 1)
        assert cancelled(wire) == []
        await anyio.sleep(2)
        assert cancelled(wire) == [call]
        with pytest.raises(ProtocolError, match="call again from the start"):
            await upstream.call_tool("t", {}, first.again(asked, YES))
        await upstream.wait_drained()


@pytest.mark.requirement("F-220")
async def test_no_more_calls_wait_than_may_and_the_oldest_gives_way() -> None:
    async with asking_server() as (upstream, wire):
        clients = [Modern() for _ in range(3)]
        asked = [await upstream.call_tool("t", {}, client) for client in clients]
        await anyio.wait_all_tasks_blocked()
        assert len(cancelled(wire)) == 1
        with pytest.raises(ProtocolError, match="the oldest gives way"):
            await upstream.call_tool("t", {}, clients[0].again(asked[0], YES))
        for client, question in zip(clients[1:], asked[1:], strict=True):
            assert text_of(await upstream.call_tool("t", {}, client.again(question, YES))) == "accept"


@pytest.mark.requirement("F-220")
async def test_calls_that_wait_for_their_clients_leave_their_turns_to_others() -> None:
    async with asking_server(replace(LIMITS, max_concurrency=1)) as (upstream, _):
        first, second = Modern(), Modern()
        asked = await upstream.call_tool("t", {}, first)
        assert await upstream.call_tool("t", {}, second)
        assert text_of(await upstream.call_tool("t", {}, first.again(asked, YES))) == "accept"


class Silent(FakeRequest):
    """A request of a client that is asked while it waits, and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.client = self
        self.client_capabilities = {"elicitation": {"form": {}}}

    async def push(self, method: str, params: JSON) -> JSON:
        await anyio.sleep_forever()
        raise AssertionError


@pytest.mark.requirement("F-220")
async def test_questions_that_were_pushed_hold_no_turn_and_give_way_too() -> None:
    answers: list[str] = []
    async with asking_server(replace(LIMITS, max_concurrency=1, call_timeout=50)) as (upstream, _):

        async def call() -> None:
            answers.append(text_of(await upstream.call_tool("t", {}, Silent())))

        async with anyio.create_task_group() as tasks:
            for _ in range(LIMITS.max_parked + 1):
                tasks.start_soon(call)
                await anyio.sleep(1)
            assert len(answers) == 1
            assert "2 calls wait for answers of clients, and the oldest gives way" in answers[0]
            tasks.cancel_scope.cancel()


async def test_a_server_that_ends_while_a_call_waits_is_what_the_client_hears_of() -> None:
    async with asking_server() as (upstream, wire):
        first = Modern()
        asked = await upstream.call_tool("t", {}, first)
        wire.end("exited with status 1")
        await anyio.sleep(1)
        answer = await upstream.call_tool("t", {}, first.again(asked, YES))
        assert answer["isError"] is True
        assert "upstream 'up' exited with status 1" in text_of(answer)


async def test_a_question_that_the_server_withdraws_ends_the_wait() -> None:
    async with asking_server() as (upstream, wire):
        first = Modern()
        asked = await upstream.call_tool("t", {}, first)
        [call] = [message["id"] for message in wire.received if message.get("method") == "tools/call"]
        wire.notify("notifications/cancelled", {"requestId": f"q{call}"})
        wire.answer({"id": call}, {"content": [{"type": "text", "text": "never mind"}]})
        assert text_of(await upstream.call_tool("t", {}, first.again(asked, YES))) == "never mind"
