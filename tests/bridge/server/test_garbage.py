"""What a call leaves behind is gone when it is over: large answers do not wait for the garbage collector."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio.lowlevel
import httpx2
import pytest

from benchmarks.soak import Client
from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.errors import ToolError
from gaia_bridge.model import SourceState
from gaia_bridge.settings import HttpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import serving
from tests.support.agents import ScriptedAgent
from tests.support.upstreams import raw_server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

CALLS = 10


@contextmanager
def uncollected() -> Generator[Counter[str]]:
    """Our objects that only the garbage collector can free, by type, after the block."""
    found = Counter[str]()
    gc.collect()
    gc.freeze()  # what is there already need not be looked through again, by the next test either
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds: list[type[Any]] = [type(item) for item in gc.garbage]
        ours = [kind for kind in kinds if kind.__module__.startswith(("gaia", "benchmarks"))]
        # A frame of anyio's in a traceback leads to the frame of the loop, and that to the last timer and its context.
        found.update(kind.__qualname__ for kind in ours if kind is not Cancellation)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def execute(tool: str, arguments: JSON) -> Any:
    match tool:
        case "fail":
            raise ToolError("no")
        case "bug":
            raise RuntimeError("nobody expects this")
        case "later":
            return later()
        case "later_fail":
            return later("no")
        case _:
            return "yes"


async def later(problem: str = "") -> str:
    await anyio.lowlevel.checkpoint()
    if problem:
        raise ValueError(problem)
    return "yes"


AGENT = ScriptedAgent(execute, "work", "fail", "bug", "later", "later_fail")
FAILURES = ("two__fail", "bug", "two__later_fail", "up__invalid")
ERRORS = ("up__refuse", "nobody__has_it")


@pytest.mark.requirement("F-090")
@pytest.mark.parametrize(
    ("modern", "quick_answer", "tools"),
    [
        (False, 5.0, ("work", "later", "up__meta", *FAILURES, *ERRORS)),
        (True, 5.0, ("work", "later", "up__meta", *FAILURES, *ERRORS)),
        (False, 0.0, ("work", "later", "up__meta", "bug")),
    ],
    ids=["handshake", "modern", "event stream"],
)
async def test_calls_leave_nothing_to_the_garbage_collector(
    modern: bool, quick_answer: float, tools: Sequence[str]
) -> None:
    """An answer is JSON, or with no time for a quick one, in an event stream."""
    left: dict[str, object] = {}
    settings = Settings(http=HttpLimits(quick_answer=quick_answer))
    async with serving({"one": AGENT, "two": AGENT}, settings) as (url, bridge):
        await bridge.add_upstream(raw_server())
        await until(lambda: all(source.status.state is SourceState.READY for source in bridge.sources))
        async with httpx2.AsyncClient() as http:
            client = Client(http, f"{url}/mcp", modern=modern)
            await client.greet()
            for tool in tools:
                answer = await client.request("tools/call", {"name": tool, "arguments": {}})
                assert ("error" in answer) == (tool in ERRORS)
                assert answer.get("result", {}).get("isError", False) == (tool in FAILURES), answer
                with uncollected() as found:
                    for _ in range(CALLS):
                        await client.request("tools/call", {"name": tool, "arguments": {}})
                if found:
                    left[tool] = found
    assert left == {}


@pytest.mark.requirement("F-090")
@pytest.mark.parametrize("quick_answer", [0.0, 5.0], ids=["event stream", "json"])
@pytest.mark.parametrize("end", ["it is deleted", "others take its place"])
async def test_sessions_and_their_connections_leave_nothing_to_the_garbage_collector(
    quick_answer: float, end: str
) -> None:
    settings = Settings(http=HttpLimits(quick_answer=quick_answer, sessions=2))
    async with serving({"one": AGENT, "two": AGENT}, settings) as (url, bridge):
        await bridge.add_upstream(raw_server())
        await until(lambda: all(source.status.state is SourceState.READY for source in bridge.sources))

        async def live() -> None:
            async with httpx2.AsyncClient() as http:
                client = Client(http, f"{url}/mcp", modern=False)
                await client.greet()
                for tool in ("work", "up__meta"):
                    assert "result" in await client.request("tools/call", {"name": tool, "arguments": {}})
                async with http.stream("GET", f"{url}/mcp", headers=client.headers) as standing:
                    assert standing.status_code == 200
                if end == "it is deleted":
                    assert (await http.delete(f"{url}/mcp", headers=client.headers)).status_code == 200

        for _ in range(CALLS):
            await live()
        with uncollected() as found:
            for _ in range(CALLS):
                await live()
    assert found == {}


async def over_sse(url: str, http: httpx2.AsyncClient) -> None:
    """A client of HTTP+SSE that shakes hands, calls, and leaves."""
    about: JSON = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "sse", "version": "1"}}
    async with http.stream("GET", f"{url}/sse") as stream:
        events = (line.removeprefix("data: ") async for line in stream.aiter_lines() if line.startswith("data: "))
        place = url + await anext(events)
        call: JSON = {"name": "up__meta", "arguments": {}}
        for number, (method, params) in enumerate([("initialize", about), ("tools/call", call)]):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            assert (await http.post(place, json=message)).status_code == 202
            assert json.loads(await anext(events))["id"] == number
            await http.post(place, json={"jsonrpc": "2.0", "method": "notifications/initialized"})


async def listening(url: str, http: httpx2.AsyncClient) -> None:
    """A client of 2026-07-28 that listens for changes, and leaves."""
    meta: JSON = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "listening", "version": "1"},
    }
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "subscriptions/listen",
    }
    async with http.stream("POST", f"{url}/mcp", json=message, headers=headers) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                assert "acknowledged" in line
                break


@pytest.mark.requirement("F-090")
@pytest.mark.parametrize("live", [over_sse, listening])
async def test_streams_that_are_left_leave_nothing_to_the_garbage_collector(
    live: Callable[[str, httpx2.AsyncClient], Awaitable[None]],
) -> None:
    async with serving({"one": AGENT, "two": AGENT}) as (url, bridge), httpx2.AsyncClient() as http:
        await bridge.add_upstream(raw_server())
        await until(lambda: all(source.status.state is SourceState.READY for source in bridge.sources))
        for _ in range(2):
            await live(url, http)
        with uncollected() as found:
            for _ in range(CALLS):
                await live(url, http)
    assert found == {}
