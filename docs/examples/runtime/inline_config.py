"""The asynchronous manager of MCP servers with its configuration in the program, closed by itself.

    python docs/examples/runtime/inline_config.py

It needs `uvx`, a part of uv, which fetches the MCP server when it is first used; and no model.
"""

from __future__ import annotations

import asyncio

from gaia.mcp.aio import MCPClientManager

CONFIG = {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}


async def main() -> None:
    async with MCPClientManager(config=CONFIG) as manager:  # connects, and cleans up
        cities = ("Europe/Lisbon", "Asia/Tokyo")
        calls = [manager.execute_tool("get_current_time", {"timezone": city}) for city in cities]
        for result in await asyncio.gather(*calls):
            print(result["content"])


asyncio.run(main())
