"""What is owed to a client on lines: an answer to each request, and nothing to one that it cancelled."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.contract import AgentLike
from gaia_bridge.server.transports.lines import LineClient
from gaia_bridge.settings import BacklogLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.test_direct_calls import began as began  # a fixture
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.waiting import PATIENCE, until, wait_in_thread

pytestmark = pytest.mark.anyio

HELLO: JSON = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
CANCEL: JSON = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}


def request(number: int, method: str, **params: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Lines:
    """A client on lines, and what it was sent."""

    def __init__(self) -> None:
        self.client: LineClient
        self.said: list[Any] = []
        self.working = threading.Event()
        self.reading = anyio.Event()
        self.reading.set()

    async def write(self, line: bytes) -> None:
        await self.reading.wait()
        self.said.append(json.loads(line))

    def write_at_once(self, line: bytes) -> bool:
        if line:
            self.said.append(json.loads(line))
        return self.reading.is_set()

    async def take(self, *messages: Any) -> None:
        """Send messages; nothing else happens in between."""
        for message in messages:
            await self.client.take(json.dumps(message).encode())

    def work(self, _arguments: JSON) -> str:
        self.working.set()
        context = get_request_context()
        context.wait_cancelled(PATIENCE)
        return "cancelled" if context.cancelled else "not cancelled"


@asynccontextmanager
async def connected(
    settings: Settings | None = None, *, greets: bool = True, agent: AgentLike | None = None
) -> AsyncGenerator[Lines]:
    lines = Lines()
    async with running_bridge(agent or one_tool(lines.work), settings=settings) as running:
        lines.client = LineClient(running.endpoint(), lines.write, 10, write_at_once=lines.write_at_once)
        if greets:
            await lines.take(request(0, "initialize", **HELLO))
            lines.said.clear()
        yield lines
        lines.client.close()


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_request_that_was_cancelled_is_owed_nothing(begun: bool, times: int) -> None:
    async with connected() as lines:
        await lines.take(request(7, "tools/call", name="work"), *([] if begun else [CANCEL] * times))
        if begun:
            assert await anyio.to_thread.run_sync(lines.working.wait, PATIENCE)
            await lines.take(*[CANCEL] * times)
        await lines.client.none_left()
        assert lines.said == []
        await lines.take(request(7, "ping"))
        await lines.client.none_left()
        assert lines.said == [{"jsonrpc": "2.0", "id": 7, "result": {}}]


async def test_a_batch_is_answered_without_what_it_cancels_itself() -> None:
    async with connected() as lines:
        await lines.take([request(7, "tools/call", name="work"), CANCEL, request(8, "ping")])
        await lines.client.none_left()
        assert lines.said == [[{"jsonrpc": "2.0", "id": 8, "result": {}}]]


async def test_a_cancellation_of_nothing_in_particular_cancels_nothing() -> None:
    async with connected() as lines:
        unfit: list[Any] = [None, True, 1.5, {}]
        for named in unfit:
            await lines.take({**request(7, "tools/list"), "id": str(named)}, {**CANCEL, "params": {"requestId": named}})
        await lines.client.none_left()
        assert {answer["id"] for answer in lines.said} == {"None", "True", "1.5", "{}"}


@pytest.mark.requirement("F-090")
@pytest.mark.parametrize("method", ["ping", "tools/list"])
async def test_a_client_that_asks_on_without_reading_is_read_no_further(method: str) -> None:
    async with connected(Settings(backlog=BacklogLimits(requests=5))) as lines:
        lines.reading = anyio.Event()
        taken = list[int]()

        async def ask() -> None:
            for number in range(20):
                await lines.take(request(number, method))
                taken.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert taken == [*range(5)]
            lines.reading.set()
        await lines.client.none_left()
        await lines.take(request(20, method))
        await lines.client.none_left()
    answers = {answer["id"]: answer for answer in lines.said}
    assert answers.keys() == {*range(21)}
    assert "their answers were not read" in answers[5]["error"]["message"]
    assert "result" in answers[20]


async def test_answers_that_a_client_does_not_read_are_counted_whatever_it_asked_for() -> None:
    """Lists are larger than most results of tools."""
    limits = BacklogLimits(client_bytes=1, at_once=1)
    async with connected(Settings(backlog=limits)) as lines:
        lines.reading = anyio.Event()
        await lines.take(*(request(number, "tools/list") for number in range(5)), request(5, "ping"))
        await anyio.wait_all_tasks_blocked()
        lines.reading.set()
        await lines.client.none_left()
    assert [answer["id"] for answer in lines.said] == [0, 5, 1, 2, 3, 4]


async def test_calls_before_the_handshake_are_refused_however_often_they_come() -> None:
    async with connected(greets=False) as lines:
        for number in range(3):
            await lines.take(request(number, "tools/call", name="work", arguments={}))
            await until(lambda number=number: len(lines.said) > number)  # type: ignore[misc]
        assert ["before the handshake" in answer["error"]["message"] for answer in lines.said] == [True] * 3
        assert not lines.working.is_set()


@pytest.mark.parametrize("key", ["clientInfo", "clientCapabilities"])
async def test_an_envelope_that_was_refused_is_refused_again(key: str) -> None:
    envelope: JSON = {"protocolVersion": "2026-07-28", "clientInfo": HELLO["clientInfo"], "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in {**envelope, key: False}.items()}
    async with connected(greets=False) as lines:
        for number in range(3):
            await lines.take(request(number, "tools/call", name="work", arguments={}, _meta=meta))
            await until(lambda number=number: len(lines.said) > number)  # type: ignore[misc]
        assert [answer.get("error", {}).get("code") for answer in lines.said] == [-32602] * 3
        assert not lines.working.is_set()


class Holding:
    """An agent whose call is held until the test lets it go."""

    def __init__(self) -> None:
        self.works, self.may_end, self.is_cancelled = threading.Event(), threading.Event(), threading.Event()

    def work(self, arguments: JSON) -> str:
        request = get_request_context()
        if arguments.get("held"):
            self.works.set()
            self.may_end.wait(PATIENCE)
        if arguments.get("waits"):
            self.works.set()
            if request.wait_cancelled(PATIENCE):
                self.is_cancelled.set()
        return f"done with {sorted(request.meta)}"


@asynccontextmanager
async def called(**settings: Any) -> AsyncGenerator[tuple[Lines, Holding]]:
    """A client whose next call is direct."""
    agent = Holding()
    try:
        async with connected(Settings(**settings), agent=one_tool(agent.work)) as lines:
            await lines.take(call(1))
            await lines.client.none_left()
            lines.said.clear()
            yield lines, agent
    finally:
        agent.may_end.set()


def call(number: int, **arguments: Any) -> JSON:
    return request(number, "tools/call", name="work", arguments=arguments)


async def test_the_answer_to_a_direct_call_is_waited_for() -> None:
    async with called() as (lines, agent):
        await lines.take(call(7, held=True))
        assert lines.client.is_waiting
        await wait_in_thread(agent.works.wait)
        agent.may_end.set()
        with anyio.fail_after(PATIENCE):
            await lines.client.none_left()
        assert [answer["result"]["content"][0]["text"] for answer in lines.said] == ["done with []"]


async def test_a_client_that_reads_no_more_since_its_direct_call_is_answered_when_it_reads(
    began: list[DirectCall],
) -> None:
    async with called() as (lines, agent):
        await lines.take(call(7, held=True))
        await wait_in_thread(agent.works.wait)
        lines.reading = anyio.Event()
        agent.may_end.set()
        await until(lambda: began[0].is_ordinary or bool(lines.said))
        assert lines.said == []
        lines.reading.set()
        with anyio.fail_after(PATIENCE):
            await lines.client.none_left()
        assert [answer["id"] for answer in lines.said] == [7]


async def test_direct_calls_count_among_those_that_are_not_answered_yet_until_they_are() -> None:
    async with called(backlog=BacklogLimits(requests=2)) as (lines, agent):
        for number in range(2, 6):
            await lines.take(call(number))
            await lines.client.none_left()
        assert all("result" in answer for answer in lines.said)
        lines.said.clear()
        await lines.take(call(7, held=True), call(8, held=True), call(9))
        await until(lambda: bool(lines.said))
        assert "expected fewer" in lines.said[0]["error"]["message"]
        agent.may_end.set()
        with anyio.fail_after(PATIENCE):
            await lines.client.none_left()
        await lines.take(call(10))
        await lines.client.none_left()
        assert sorted(answer["id"] for answer in lines.said if "result" in answer) == [7, 8, 10]


@pytest.mark.parametrize("is_direct", [False, True])
async def test_the_calls_of_a_client_that_leaves_are_cancelled(is_direct: bool) -> None:
    async with called(direct_calls=is_direct) as (lines, agent):
        await lines.take(call(7, waits=True))
        await wait_in_thread(agent.works.wait)
        lines.client.close()
        await wait_in_thread(agent.is_cancelled.wait)


async def test_a_call_has_its_own_meta_and_not_that_of_an_earlier_one() -> None:
    async with called() as (lines, _):
        metas: list[JSON] = [{"a/b": 1}, {}, {"c/d": 1}, {}]
        for number, meta in enumerate(metas, 2):
            message = call(number)
            message["params"] |= {"_meta": meta} if meta else {}
            await lines.take(message)
            await lines.client.none_left()
        said = [answer["result"]["content"][0]["text"] for answer in lines.said]
        assert said == [f"done with {[*meta]}" for meta in metas]
