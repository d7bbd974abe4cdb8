"""What clients tell servers of their own accord: how far their answers are, and that their folders are others."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from pydantic import FileUrl

from gaia_bridge.model import HttpServerSpec, StdioServerSpec
from gaia_bridge.settings import Settings
from tests.interaction.connecting import DEADLINE, client_of, serving
from tests.interaction.results import call, text_of, wire
from tests.servers.http_upstream import served
from tests.support.agents import one_tool
from tests.support.forking import forked
from tests.support.on_demand import mcp, mcp_types, pushing_server
from tests.support.upstreams import PATIENT, raw_server, until_ready

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

TRANSPORTS = pytest.mark.parametrize(("transport", "way"), [("mcp", "stdio"), ("sse", "http"), ("mcp", "http")])


@asynccontextmanager
async def published(way: str) -> AsyncGenerator[str]:
    """The URL of a bridge with an agent, a server that asks nothing, and one that asks."""
    with served(server=pushing_server.SERVER._lowlevel_server) as address:  # pyright: ignore[reportPrivateUsage]
        stdio = StdioServerSpec("push", sys.executable, forked("pushing_server.py"))
        spec = stdio if way == "stdio" else HttpServerSpec("push", f"{address}/mcp/")
        async with serving({"worker": one_tool(lambda _: "worked")}, Settings(upstream=PATIENT)) as (url, bridge):
            await bridge.add_upstream(replace(raw_server(), name="old"))
            await bridge.add_upstream(spec)
            await until_ready(*bridge.sources)
            yield url


async def tell_of_folders(client: mcp.Client) -> None:
    await client.send_roots_list_changed()  # pyright: ignore[reportDeprecated]


async def said(client: mcp.Client, tool: str) -> str:
    return text_of(await call(client, f"push__{tool}"))


@TRANSPORTS
@pytest.mark.requirement("P-207")
async def test_a_server_that_asks_hears_how_far_the_client_is_with_its_answer(transport: str, way: str) -> None:
    heard = {1: anyio.Event(), 2: anyio.Event()}

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard[int(progress)].set()

    async def think(context: Any, params: Any) -> mcp_types.CreateMessageResult:
        token = context.meta["progress_token"]
        for step, event in heard.items():
            await context.session.send_progress_notification(token, step, 2, f"thought {step}")
            await event.wait()
        return mcp_types.CreateMessageResult(role="assistant", content=mcp_types.TextContent(text="4"), model="m")

    with anyio.fail_after(DEADLINE):
        async with published(way) as url, client_of(f"{url}/{transport}", "legacy", sampling_callback=think) as client:
            result = wire(await client.call_tool("push__watch_model", progress_callback=hear))
            assert text_of(result) == "1/2 thought 1, 2/2 thought 2"


@TRANSPORTS
@pytest.mark.requirement("P-207")
async def test_a_server_that_asked_for_folders_hears_that_they_changed_and_may_ask_again(
    transport: str, way: str
) -> None:
    folders = ["file:///one"]

    async def roots(context: Any) -> mcp_types.ListRootsResult:
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=FileUrl(folder)) for folder in folders])

    with anyio.fail_after(DEADLINE):
        async with published(way) as url:
            async with client_of(f"{url}/{transport}", "legacy", list_roots_callback=roots) as client:
                await tell_of_folders(client)  # nobody asked, and nobody is told
                assert await said(client, "watch_roots") == "watching"
                assert await said(client, "known_roots") == "file:///one"
                folders[:] = ["file:///two", "file:///three"]
                await tell_of_folders(client)
                while await said(client, "known_roots") != "file:///two file:///three":  # noqa: ASYNC110
                    await anyio.sleep(0.01)
