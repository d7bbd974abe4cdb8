"""An agent that chats with the tools of MCP servers, beside a tool of its own.

    python docs/examples/runtime/chat_agent.py

It needs a model server (docs/models.md), and `uvx`, a part of uv, which fetches the MCP server when it is first used.
"""

from __future__ import annotations

import asyncio

from gaia.mcp.aio import ToolAgent


def birthday_of(name: str) -> str:
    """Tell when somebody was born."""
    return {"Ada": "1815-12-10"}.get(name, "unknown")


async def main() -> None:
    agent = ToolAgent(
        system_message="You know what day it is.",
        mcp_config={"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}},
        tools=[birthday_of],
    )
    print(await agent.chat("How old is Ada today?"))  # connects the servers, as it is the first turn
    await agent.cleanup()


asyncio.run(main())
