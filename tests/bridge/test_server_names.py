"""A server whose name has blanks, a slash and an `@`: every address that is made of the name leads to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from gaia_bridge import Bridge, Client
from gaia_bridge.model import HttpServerSpec
from tests.support.gaia_clients import raw_server
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

NAME = "@scope/my server"
PATH = "/servers/%40scope%2Fmy%20server"


@asynccontextmanager
async def served(servers: Mapping[str, Any]) -> AsyncGenerator[tuple[Bridge, str]]:
    """A bridge with a listener of its own."""
    async with Bridge(servers=servers) as bridge, anyio.create_task_group() as tasks:
        [url] = await tasks.start(bridge.serve_http, "127.0.0.1", 0)
        with anyio.fail_after(PATIENCE * 2):
            yield bridge, url
        tasks.cancel_scope.cancel()


async def test_a_server_with_any_name_is_reached_under_its_quoted_name_and_its_prefix() -> None:
    async with served({"other": raw_server(), NAME: raw_server()}) as (bridge, url):
        root = f"http://{urlsplit(url).netloc}"
        status = {source["name"]: source["path"] for source in bridge.status()["sources"]}
        assert status == {"other": "/servers/other/mcp", NAME: f"{PATH}/mcp"}
        for path in (f"{PATH}/mcp", "/servers/@scope/my%20server/mcp"):  # as a proxy passes it on that knows no %2F
            async with Client(root + path) as client:
                assert "env" in {tool["name"] for tool in await client.list_tools()}
        async with Client(f"{root}/mcp") as client:
            names = {tool["name"] for tool in await client.list_tools()}
            assert {"scope_my_server__env", "other__env"} <= names
            shown = [resource["uri"] for resource in await client.list_resources()]
            assert shown == ["raw://r", "mcp://%40scope%2Fmy%20server/raw://r"]
            for uri in shown:
                [content] = await client.read_resource(uri)
                assert content["uri"] == uri
        async with Client(HttpServerSpec("sse", f"{root}{PATH}/sse", sse=True)) as client:
            assert "env" in {tool["name"] for tool in await client.list_tools()}
        assert await _status(root, "/servers/@scope/mcp") == 404
        await bridge.remove(NAME)
        assert await _status(root, f"{PATH}/mcp") == 404


async def _status(root: str, path: str) -> int:
    async with httpx2.AsyncClient(base_url=root) as http:
        response = await http.post(path, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        return response.status_code
