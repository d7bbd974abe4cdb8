"""A server over HTTP in a process of its own, which a test can kill: `python -m tests.servers.mortal_http PORT`.

Of both eras at `/mcp/`, HTTP+SSE at `/sse`. Its tool `wait` answers after the seconds that it is given.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from tests.servers.http_upstream import served


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    """One tool."""
    return ListToolsResult(tools=[Tool(name="wait", input_schema={"type": "object"})])


async def call_tool(ctx: Any, params: Any) -> CallToolResult:
    """Wait, and say so."""
    await anyio.sleep(params.arguments["seconds"])
    return CallToolResult(content=[TextContent(type="text", text="waited")])


if __name__ == "__main__":
    with served(int(sys.argv[1]), server=Server("mortal", on_list_tools=list_tools, on_call_tool=call_tool)):
        threading.Event().wait()
