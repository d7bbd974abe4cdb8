"""A server of the official SDK over Streamable HTTP, as its author would serve it, in both eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from gaia_bridge.client import ClientDelegate, Connection, Deadline, Era, RequestTimeoutError, connect
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.model import HttpServerSpec, Progress
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp_lowlevel, mcp_server_context, mcp_types

pytestmark = pytest.mark.anyio


REGION: JSON = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
PAGES = {None: ("place", "two"), "two": ("hang", None)}


async def list_tools(
    ctx: mcp_server_context.ServerRequestContext[Any, Any], params: mcp_types.PaginatedRequestParams | None
) -> mcp_types.ListToolsResult:
    name, following = PAGES[params.cursor if params else None]
    return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name=name, input_schema=REGION)], next_cursor=following)


async def call_tool(
    ctx: mcp_server_context.ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
) -> mcp_types.CallToolResult:
    if params.name == "hang":
        await anyio.sleep_forever()
    for step in (1, 2, 3):
        await ctx.session.report_progress(step, 3, f"step {step}")
    assert ctx.request is not None
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=ctx.request.headers.get("mcp-param-region", "none"))]
    )


@asynccontextmanager
async def connected(era: Era) -> AsyncGenerator[Connection]:
    server = mcp_lowlevel.Server[Any]("sdk", version="1.2.3", on_list_tools=list_tools, on_call_tool=call_tool)
    sockets = bind("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    http = HttpServer(server.streamable_http_app(), sockets=sockets)
    limits = UpstreamLimits()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            await tasks.start(http.run)
            transport = StreamableHttpTransport(HttpServerSpec("sdk", f"http://127.0.0.1:{port}/mcp"), limits)
            known = era if era is Era.LEGACY else None
            async with connect(transport, ClientDelegate(), limits, era=known) as connection:
                assert connection.handshake.era is era
                yield connection
            http.stop()


@pytest.mark.requirement("P-4", "P-6", "S-6")
@pytest.mark.parametrize("era", Era)
async def test_lists_calls_progress_and_headers_work_with_the_official_server(era: Era) -> None:
    reports: list[Any] = []

    async def report(told: Progress) -> None:
        reports.append((told.progress, told.total, told.message))

    async with connected(era) as connection:
        assert (connection.handshake.info["name"], connection.handshake.info["version"]) == ("sdk", "1.2.3")
        assert [tool["name"] for tool in await connection.list_all("tool")] == ["place", "hang"]
        call: JSON = {"name": "place", "arguments": {"region": "Köln\r\nX-Evil: 1"}}
        result = await connection.request("tools/call", call, on_progress=report)
        mirrored = result["content"][0]["text"]
        assert mirrored.startswith("=?base64?") if era is Era.MODERN else mirrored == "none"
        assert reports == [(step, 3, f"step {step}") for step in (1, 2, 3)]
        with pytest.raises(RequestTimeoutError):
            await connection.request("tools/call", {"name": "hang"}, deadline=Deadline(0.1, 0.1))
        assert 0 <= await connection.ping() < 10
