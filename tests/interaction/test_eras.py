"""One connection has one era and one handshake. Raw JSON-RPC, because no SDK client would get it wrong."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from typing import Final

import anyio
import pytest

from gaia_bridge.text.json_types import JSON
from tests.conformance.raw_clients import RawClient, connect_http, connect_sse, connect_stdio
from tests.interaction.connecting import AGENT_FILE, ERAS, HTTP_TRANSPORTS, TRANSPORTS, serving
from tests.interaction.everything_agent import EverythingAgent

pytestmark = pytest.mark.anyio

LEGACY = "2025-11-25"
NEWEST = "2026-07-28"
OLDER: Final[JSON] = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}
MODERN: Final[JSON] = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    }
}
INVALID_REQUEST = -32600


def connected(transport: str, url: str) -> AbstractAsyncContextManager[RawClient]:
    match transport:
        case "http":
            return connect_http(f"{url}/mcp")
        case "sse":
            return connect_sse(f"{url}/sse")
        case _:
            return connect_stdio([sys.executable, "-m", "gaia_bridge", "serve", "--stdio", str(AGENT_FILE)])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.requirement("F-080", "F-081", "P-2")
async def test_a_session_keeps_its_handshake_and_its_era(transport: str) -> None:
    async with serving({"everything": EverythingAgent()}) as (url, _), connected(transport, url) as client:
        if transport != "http":  # where there is no session before the handshake
            early = await client.request("tools/list")
            assert "error" in early
        await client.initialize(LEGACY)
        again = await client.request("initialize", OLDER)
        assert again["error"]["code"] == INVALID_REQUEST
        if transport != "http":  # where every request names its era in a header
            assert (await client.request("tools/list", MODERN))["error"]["code"] == INVALID_REQUEST
        assert await client.result("ping") == {}


@pytest.mark.parametrize("transport", ["stdio", "sse"])
@pytest.mark.requirement("F-080", "P-2")
async def test_a_modern_stream_refuses_the_handshake(transport: str) -> None:
    async with serving({"everything": EverythingAgent()}) as (url, _), connected(transport, url) as client:
        assert (await client.result("tools/list", MODERN))["tools"]
        refused = await client.request("initialize", OLDER)
        assert refused["error"]["code"] == -32022
        assert refused["error"]["data"]["supported"] == [NEWEST]
        assert (await client.result("tools/list", MODERN))["tools"]


@pytest.mark.requirement("S-9", "F-087")
@pytest.mark.parametrize("era", ERAS)
async def test_hanging_up_gives_up_a_modern_call_and_leaves_a_legacy_one_alone(era: str) -> None:
    async with serving({"everything": EverythingAgent()}) as (url, _), connect_http(f"{url}/mcp") as client:

        async def call(name: str) -> JSON:
            params: JSON = {"name": name, "arguments": {"key": "left"}}
            if era == "modern":
                client.headers |= {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": name}
                params |= MODERN
            result: JSON = (await client.result("tools/call", params))["structuredContent"]
            return result

        if era == "legacy":
            await client.initialize(LEGACY)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "hold")
            assert await call("started") == {"started": True}
            tasks.cancel_scope.cancel()  # which closes the connection, and sends nothing
        await call("release")
        assert await call("ended") == {"cancelled": era == "modern"}


@pytest.mark.parametrize("transport", HTTP_TRANSPORTS)
@pytest.mark.requirement("F-086")
async def test_nobody_can_cancel_the_request_of_somebody_else(transport: str) -> None:
    """Both clients count their requests from one."""
    held: list[JSON] = []
    async with (
        serving({"everything": EverythingAgent()}) as (url, _),
        connected(transport, url) as mine,
        connected(transport, url) as theirs,
    ):
        await mine.initialize(LEGACY)
        await theirs.initialize(LEGACY)

        async def hold() -> None:
            held.append(await mine.result("tools/call", {"name": "hold", "arguments": {"key": "x"}}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await theirs.result("tools/call", {"name": "started", "arguments": {"key": "x"}})
            for number in range(4):
                cancel = {"method": "notifications/cancelled", "params": {"requestId": number}}
                await theirs.send({"jsonrpc": "2.0", **cancel})
            await theirs.result("tools/call", {"name": "release", "arguments": {"key": "x"}})
        assert [result["structuredContent"] for result in held] == [{"held": "x"}]
        ended = await theirs.result("tools/call", {"name": "ended", "arguments": {"key": "x"}})
        assert ended["structuredContent"] == {"cancelled": False}
