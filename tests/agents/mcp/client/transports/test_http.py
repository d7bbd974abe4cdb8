"""`HTTPTransport` with a server written with the SDK, over Streamable HTTP and over the older HTTP+SSE."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from gaia.mcp.client import HTTPTransport, MCPClient
from tests.servers.auth_server import auth_server
from tests.servers.http_upstream import served
from tests.support.processes import background_threads

seen_authorizations: list[str] = []
"""The `Authorization` headers of all requests to `/mcp/`."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the server is."""
    with served(seen=seen_authorizations) as base:
        yield base


@pytest.mark.parametrize(("path", "kind"), [("/mcp/", "http"), ("/sse", "sse")])
def test_a_server_is_used_over_http(url: str, path: str, kind: str) -> None:
    config = {"url": url + path, "type": kind, "headers": {"Authorization": "Bearer x"}}
    with MCPClient.from_config("web", config) as client:
        assert client.server_info["name"] == "sdk-upstream"
        assert [tool.name for tool in client.list_tools()][:2] == ["add", "echo"]
        assert client.call_tool("add", {"a": 1, "b": 2})["structuredContent"] == {"sum": 3}
        assert client.call_tool("fail", {})["isError"] is True
        assert client.is_connected()
    assert not client.is_connected()
    assert background_threads() == []


def test_headers_are_sent_with_every_request(url: str) -> None:
    seen_authorizations.clear()
    with MCPClient("web", HTTPTransport(f"{url}/mcp/", headers={"Authorization": "Bearer y"})) as client:
        client.list_tools()
    assert len(seen_authorizations) >= 3
    assert set(seen_authorizations) == {"Bearer y"}


def test_a_new_transport_has_its_arguments() -> None:
    transport = HTTPTransport("http://localhost/mcp")
    facts: Any = (transport.url, transport.headers, transport.timeout, transport.debug, transport.sse)
    assert facts == ("http://localhost/mcp", {}, 30, False, False)


@pytest.mark.requirement("F-371")
def test_arguments_by_place_are_in_the_order_of_amds_transport() -> None:
    transport = HTTPTransport("http://localhost/mcp", 5, True)
    assert (transport.timeout, transport.debug, transport.headers) == (5, True, {})


@pytest.mark.requirement("S0-4")
@pytest.mark.parametrize("sse", [False, True])
def test_an_address_where_nobody_listens_is_false_and_says_so(sse: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    client = MCPClient("web", HTTPTransport(f"http://127.0.0.1:{port}/mcp", sse=sse))
    assert client.connect() is False
    assert f"the server cannot be reached at http://127.0.0.1:{port}/mcp: Connection refused" in client.last_error
    assert background_threads() == []


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "grants"), [("client_credentials", 1), (None, 0)])
async def test_what_an_entry_says_about_logins_is_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str | None, grants: int
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with auth_server() as server:
        oauth = {"grantType": method, "clientId": "me", "clientSecret": "s3cret", "issuer": server.issuer}
        client = MCPClient.from_config("web", {"url": server.url, "oauth": oauth if method else False})
        await anyio.to_thread.run_sync(client.connect)  # it lets us in, and is no MCP server
        await anyio.to_thread.run_sync(client.disconnect)
        assert server.grants["client_credentials"] == grants
