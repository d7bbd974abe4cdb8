"""Servers over HTTP in the asynchronous manager, which document 002 does without."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from gaia.mcp.aio import MCPClientManager
from tests.servers.http_upstream import served

pytestmark = pytest.mark.anyio


seen_authorizations: list[str] = []
"""The `Authorization` headers of all requests to `/mcp/`."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the server is."""
    with served(seen=seen_authorizations) as base:
        yield base


@pytest.mark.requirement("S2-30")
@pytest.mark.parametrize("entry", [{"url": "/mcp/"}, {"url": "/mcp/", "type": "http"}, {"url": "/sse", "type": "sse"}])
async def test_a_server_is_used_over_http(url: str, entry: dict[str, str]) -> None:
    entry = {**entry, "url": url + entry["url"]}
    async with MCPClientManager(config={"mcpServers": {"web": entry}}) as manager:
        assert (list(manager.sessions), manager.server_tools_map["add"]) == (["web"], "web")
        assert await manager.execute_tool("add", {"a": 1, "b": 2}) == {"success": True, "content": "3"}
        assert await manager.execute_tool("fail", {}) == {"success": False, "error": "it did not work"}
        mixed = await manager.execute_tool("mix", {})
        kinds = ["plain", "[Image: image/png]", "[Audio: audio/wav]", *(f"[Resource: demo://{name}]" for name in
                 ("linked", "text", "blob"))]  # fmt: skip
        assert mixed == {"success": True, "content": "\n".join(kinds)}


@pytest.mark.requirement("S2-30")
async def test_headers_are_sent(url: str) -> None:
    seen_authorizations.clear()
    entry = {"url": f"{url}/mcp/", "headers": {"Authorization": "Bearer y"}}
    async with MCPClientManager(config={"mcpServers": {"web": entry}}):
        assert set(seen_authorizations) == {"Bearer y"}


@pytest.mark.requirement("S2-8", "S2-30")
async def test_an_address_where_nobody_listens_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    entry = {"url": f"http://127.0.0.1:{port}/mcp"}
    async with MCPClientManager(config={"mcpServers": {"web": entry}}) as manager:
        assert (manager.sessions, manager.server_tools_map) == ({}, {})
    assert "Connection refused" in caplog.text


@pytest.mark.requirement("S2-30")
def test_loops_may_follow_each_other_over_http(url: str) -> None:
    manager = MCPClientManager(config={"mcpServers": {"web": {"url": f"{url}/mcp/"}}})
    asyncio.run(manager.connect_to_servers())
    for _ in range(2):
        assert asyncio.run(manager.execute_tool("add", {"a": 1}))["content"] == "1"
    asyncio.run(manager.cleanup())
