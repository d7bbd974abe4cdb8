"""Direct calls to a server over HTTP: its sessions end, it goes away, and calls are cancelled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import Settings, UpstreamLimits
from tests.bridge.server.test_direct_calls import began as began  # a fixture
from tests.bridge.server.test_direct_calls_in_flight import Client
from tests.bridge.sources.upstream.test_upstream_http import McpServer
from tests.interaction.connecting import serving
from tests.servers.evil_http import EvilServer, evil_http
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(backoff_start=0.02, backoff_cap=0.1, http_keep_alive=0.01)


class Place:
    """A bridge with a server over HTTP, and one client of it whose next call is direct."""

    def __init__(self, server: McpServer, http: EvilServer, bridge: Bridge, client: Client, other: Client) -> None:
        self.server = server
        self.http = http
        self.bridge = bridge
        self.client = client
        self.other = other
        """The same client on another connection."""

    async def call(self) -> str:
        [answer] = await self.client.call([], number=7, name="up__work")
        return str(answer.get("result", answer))

    async def until_received(self, method: str) -> Any:
        def received() -> list[Any]:
            return [seen.message for seen in self.http.seen if seen.message.get("method") == method]

        await until(lambda: bool(received()))
        return received()[-1]


@asynccontextmanager
async def placed(began: list[DirectCall]) -> AsyncGenerator[Place]:
    server = McpServer()
    async with (
        evil_http() as http,
        serving({}, Settings(upstream=LIMITS)) as (url, bridge),
        httpx2.AsyncClient() as first,
        httpx2.AsyncClient() as second,
    ):
        http.faults["mcp"] = server.serve
        await bridge.add_upstream(HttpServerSpec("up", http.url("mcp")))
        client = Client(first, f"{url}/mcp", "2025-11-25")
        await client.greet({})
        place = Place(server, http, bridge, client, Client(second, client.url, "2025-11-25", client.session))
        with anyio.fail_after(2 * PATIENCE):
            assert "work 1" in await place.call()
            began.clear()
            yield place
        assert began


async def test_a_direct_call_in_a_session_that_the_server_forgot_is_made_once(began: list[DirectCall]) -> None:
    async with placed(began) as place:
        place.server.sessions.clear()
        for number in range(2, 8):
            assert f"work {number}" in await place.call()
        assert (place.server.opened, place.server.worked) == (2, 7)
        requests = [seen.message for seen in place.http.seen if seen.headers.get("mcp-session-id") == "s2"]
        ids = [message["id"] for message in requests if "id" in message]
        assert len(ids) == len(set(ids))


async def test_a_direct_call_to_a_server_that_goes_away_is_answered(began: list[DirectCall]) -> None:
    async with placed(began) as place:
        place.server.away = True
        assert "upstream 'up'" in await place.call()


async def test_the_reason_for_cancelling_a_direct_call_reaches_the_server(began: list[DirectCall]) -> None:
    async with placed(began) as place:
        place.server.fault = "silent"
        async with anyio.create_task_group() as tasks:
            before = len(place.http.seen)
            tasks.start_soon(place.call)
            await until(lambda: len(place.http.seen) > before)
            params = {"requestId": 7, "reason": "enough"}
            await place.other.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        cancelled = await place.until_received("notifications/cancelled")
        assert cancelled["params"]["reason"] == "enough"
