"""Clients on stdio that close their output while they are owed answers."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any, cast

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.model import ServerOptions
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.transports.lines import LineClient
from gaia_bridge.server.transports.stdio import ClaimedStdio, wait_for_answers
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.cli.running import INITIALIZE, request
from tests.support.agents import one_tool
from tests.support.upstreams import raw_server
from tests.support.virtual_time import VIRTUAL_TIME
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio

INITIALIZED: JSON = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def said_and_closed(bridge: Bridge, *messages: JSON) -> list[JSON]:
    """Everything that a client is told that writes all that it wants and closes; returns when the bridge is done."""
    reading, writing = os.pipe()
    from_bridge, to_client = os.pipe()
    os.write(writing, b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    os.close(writing)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_bridge, "rb", 0)
    )
    try:
        await bridge.serve_stdio(ClaimedStdio(reading, to_client))
        return [json.loads(line) for line in (await reader.read()).splitlines()]
    finally:
        transport.close()


@pytest.mark.requirement("F-343")
@pytest.mark.parametrize("isolation", ["shared", "session"])
async def test_who_asks_and_closes_is_answered_by_a_server_that_starts(isolation: Any) -> None:
    """It starts slower than clients are kept waiting, and than calls in flight are given in the end."""
    settings = Settings(upstream=UpstreamLimits(first_look=0.05, first_list=0.05), stdio_grace=1)
    async with Bridge(settings=settings) as bridge:
        await bridge.add_agent(one_tool(lambda _: "worked"), "agent")
        spec = raw_server("slow", SLOW="1.5")
        await bridge.add_upstream(replace(spec, options=ServerOptions(isolation=isolation)))
        with anyio.fail_after(30):
            told = await said_and_closed(
                bridge,
                INITIALIZE,
                INITIALIZED,
                request(2, "tools/call", name="up__pid", arguments={}),
                request(3, "tools/call", name="work", arguments={}),
            )
        answers = {message["id"]: message for message in told if "id" in message}
        assert int(answers[2]["result"]["content"][0]["text"]) > 0
        assert answers[3]["result"]["content"][0]["text"] == "worked"


class FakeClient:
    """A client that is owed one answer."""

    def __init__(self, *, waiting: bool = True) -> None:
        self.is_waiting = waiting
        self.answered = anyio.Event()

    def answer(self) -> None:
        self.is_waiting = False
        self.answered.set()

    async def none_left(self) -> None:
        if self.is_waiting:
            await self.answered.wait()


class FakeCatalog:
    """Sources of which one may be starting."""

    def __init__(self, *, awaited: bool) -> None:
        self.awaited = awaited
        self.up = anyio.Event()

    async def settle(self, *, listed_once: bool = False) -> None:
        pass

    async def started(self) -> None:
        await self.up.wait()


in_virtual_time = pytest.mark.parametrize("anyio_backend", [VIRTUAL_TIME], ids=["virtual time"])


async def seconds_kept(client: FakeClient, catalog: FakeCatalog, at: float = 0, then: float = 0) -> float:
    """How long a client is kept whose server is up at a time, and answers a while later."""
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:

        async def happen() -> None:
            await anyio.sleep(at)
            catalog.awaited = False
            catalog.up.set()
            await anyio.sleep(then)
            client.answer()

        if at:
            tasks.start_soon(happen)
        await wait_for_answers(cast(LineClient, client), cast(Catalog, catalog), grace=1, starting=30)
        tasks.cancel_scope.cancel()
    return round(anyio.current_time() - began, 3)


@in_virtual_time
@pytest.mark.requirement("F-343")
async def test_who_waits_for_a_server_to_start_is_kept_until_it_has_answered() -> None:
    assert await seconds_kept(FakeClient(), FakeCatalog(awaited=True), at=20, then=0.5) == 20.5


@in_virtual_time
@pytest.mark.requirement("F-343")
async def test_a_server_that_does_not_start_is_not_waited_for_without_end() -> None:
    assert await seconds_kept(FakeClient(), FakeCatalog(awaited=True)) == 31
    assert await seconds_kept(FakeClient(), FakeCatalog(awaited=True), at=5, then=50) == 6


@in_virtual_time
@pytest.mark.requirement("F-343", "F-118")
async def test_what_waits_for_no_server_is_given_its_grace_alone() -> None:
    assert await seconds_kept(FakeClient(), FakeCatalog(awaited=False)) == 1


@in_virtual_time
@pytest.mark.requirement("F-343")
async def test_who_is_owed_nothing_is_not_kept_by_a_server_that_hangs() -> None:
    assert await seconds_kept(FakeClient(waiting=False), FakeCatalog(awaited=True)) == 0


async def test_the_call_of_a_client_that_leaves_is_cancelled() -> None:
    works, is_cancelled = threading.Event(), threading.Event()

    def work(_arguments: JSON) -> str:
        works.set()
        if get_request_context().wait_cancelled(PATIENCE):
            is_cancelled.set()
        return "late"

    call: JSON = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work", "arguments": {}}}
    async with Bridge(settings=Settings(stdio_grace=0)) as bridge:
        await bridge.add_agent(one_tool(work), "agent")
        (reading, writing), (from_bridge, to_client) = os.pipe(), os.pipe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bridge.serve_stdio, ClaimedStdio(reading, to_client))
            os.write(writing, b"".join(json.dumps(line).encode() + b"\n" for line in (INITIALIZE, INITIALIZED, call)))
            await wait_in_thread(works.wait)
            os.close(writing)
            await wait_in_thread(is_cancelled.wait)
        os.close(from_bridge)
