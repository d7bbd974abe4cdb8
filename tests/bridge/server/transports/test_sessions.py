"""Who is let in when there is no more room, and what is left of a handshake that fails."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ProtocolError
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import HttpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio

HELLO: JSON = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
PASSED = {HOPS_META_KEY: [f"b{number}" for number in range(50)]}
"""Of a request that too many bridges have passed on."""
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Door:
    """A bridge with little room.

    Args:
        http: Its client.
        started: Set when the tool `wait` was called.
    """

    def __init__(self, http: httpx2.AsyncClient, started: threading.Event) -> None:
        self.http = http
        self.started = started

    async def post(self, body: object, session: str | None = None) -> httpx2.Response:
        headers = ACCEPT if session is None else {**ACCEPT, "mcp-session-id": session}
        return await self.http.post("/mcp", content=json.dumps(body).encode(), headers=headers)

    async def hello(self, **fields: Any) -> httpx2.Response:
        return await self.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**HELLO, **fields}})

    async def enter(self) -> str:
        """A session of a client that has finished its handshake."""
        session: str = (await self.hello()).headers["mcp-session-id"]
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        return session

    async def ping(self, session: str) -> int:
        return (await self.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}, session)).status_code

    async def wait(self, session: str) -> httpx2.Response:
        """A call that is open for good."""
        params: JSON = {"name": "wait", "arguments": {}}
        return await self.post({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}, session)


@asynccontextmanager
async def door(sessions: int = 2) -> AsyncGenerator[Door]:
    started = threading.Event()

    async def execute(name: str, arguments: Mapping[str, Any]) -> JSON:
        started.set()
        await anyio.sleep_forever()
        return {}

    sockets = bind("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    limits = HttpLimits(sessions=sessions)
    async with Bridge(settings=Settings(http=limits)) as bridge, anyio.create_task_group() as tasks:
        await bridge.add_agent(ScriptedAgent(execute, "wait"), "a")
        server = HttpServer(bridge.asgi(AccessPolicy.for_address("127.0.0.1", port, limits=limits)), sockets=sockets)
        with anyio.fail_after(PATIENCE * 2):
            await tasks.start(server.run)
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
                yield Door(http, started)
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-089", "F-241")
async def test_the_session_that_nobody_used_for_longest_gives_way() -> None:
    async with door() as entered:
        first, second = await entered.enter(), await entered.enter()
        assert await entered.ping(first) == 200
        third = await entered.enter()
        assert [await entered.ping(session) for session in (first, second, third)] == [200, 404, 200]


@pytest.mark.requirement("F-241")
async def test_handshakes_that_nobody_finishes_give_way_before_sessions_that_are_used() -> None:
    async with door(sessions=3) as entered:
        first = await entered.enter()
        for _ in range(20):
            assert (await entered.hello()).status_code == 200
        assert await entered.ping(first) == 200
        assert await entered.ping(await entered.enter()) == 200


@pytest.mark.requirement("F-089", "F-241")
async def test_sessions_that_are_all_in_use_stay_and_the_next_client_is_told_when_to_come_back() -> None:
    async with door() as entered, anyio.create_task_group() as tasks:
        called, listened = await entered.enter(), await entered.enter()
        streaming = anyio.Event()

        async def listen() -> None:
            headers = {"accept": "text/event-stream", "mcp-session-id": listened}
            async with entered.http.stream("GET", "/mcp", headers=headers) as response:
                assert response.status_code == 200
                streaming.set()
                await anyio.sleep_forever()

        tasks.start_soon(entered.wait, called)
        tasks.start_soon(listen)
        await streaming.wait()
        await wait_in_thread(entered.started.wait)
        refused = await entered.hello()
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == str(HttpLimits().retry_after)
        assert "all of them in use" in refused.json()["error"]["message"]
        assert await entered.ping(listened) == 200
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-241")
async def test_a_handshake_that_fails_takes_no_room() -> None:
    async with door() as entered:
        kept = [await entered.enter(), await entered.enter()]
        for _ in range(10):
            refused = await entered.hello(clientInfo=5)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32602)
            assert (await entered.hello(protocolVersion=5)).status_code == 400
            refused = await entered.hello(_meta=PASSED)
            assert (refused.status_code, "error" in refused.json()) == (200, True)
            assert "mcp-session-id" not in refused.headers
        assert [await entered.ping(session) for session in kept] == [200, 200]


@pytest.mark.requirement("F-242")
async def test_a_handshake_of_megabytes_is_refused_in_words_and_keeps_nothing() -> None:
    async with door() as entered:
        kept = await entered.enter()
        large = {"experimental": {f"x{number}": {"y": "z"} for number in range(100_000)}}
        for _ in range(3):
            refused = await entered.hello(capabilities=large)
            assert (refused.status_code, refused.json()["id"]) == (400, 1)
            assert f"expected at most {HttpLimits().handshake_bytes:,}" in refused.json()["error"]["message"]
            assert "mcp-session-id" not in refused.headers
        assert await entered.ping(kept) == 200


@pytest.mark.parametrize("accepted", ["application/json, text/event-stream", "text/event-stream"])
async def test_what_waits_for_the_end_of_a_session_hears_of_it_where_its_handshake_fails(
    accepted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = anyio.Event()

    async def meet(_catalog: Catalog, request: ClientRequest) -> None:
        request.when_client_leaves(closed.set)
        raise ProtocolError(-32603, "on purpose")

    monkeypatch.setattr(Catalog, "meet", meet)
    async with door() as entered:
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        refused = await entered.http.post("/mcp", json=message, headers={"accept": accepted})
        assert "on purpose" in refused.text
        await closed.wait()
