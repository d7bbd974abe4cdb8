"""One round with a Python SDK of the time before forms and progress: `early_python_client.py sse|http URL`.

Runs in an environment of its own, which has `mcp` 1.6 (2024-11-05) or 1.9 (2025-03-26) and nothing of this project.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import anyio

PATIENCE = 60.0
LENGTHS = [{"value": 1.5}, {"value": 2}]


async def play(transport: str, url: str) -> None:
    """Connect and ask everything."""
    module, name = {
        "sse": ("mcp.client.sse", "sse_client"),
        "http": ("mcp.client.streamable_http", "streamablehttp_client"),
    }[transport]
    mcp: Any = import_module("mcp")
    uri: Any = import_module("pydantic").AnyUrl
    opened: Any = getattr(import_module(module), name)(url)
    async with opened as (receive, send, *_), mcp.ClientSession(receive, send) as session:
        await session.initialize()
        await session.send_ping()
        for part in ("tools", "prompts", "resources", "resource_templates"):
            await getattr(session, f"list_{part}")()
        await session.call_tool("add-lengths", {"unit": "m", "lengths": LENGTHS})
        await session.call_tool("add-lengths", {"unit": "mile", "lengths": LENGTHS})
        with suppress(mcp.McpError):
            await session.call_tool("no-such-tool", {})
        await session.get_prompt("greet", {"name": "Ada", "tone": "kindly"})
        await session.read_resource(uri("note://today"))
        await session.read_resource(uri("note://monday"))
        await session.send_roots_list_changed()
        await session.call_tool("learn")
        await session.list_tools()
        await session.call_tool("forget")


async def main(transport: str, url: str) -> None:
    """Play one round."""
    with anyio.fail_after(PATIENCE):
        await play(transport, url)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
