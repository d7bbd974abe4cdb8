"""An agent with so many tools that its model searches for them, instead of being sent all of them every time.

    python docs/examples/runtime/deferred_tools.py

It needs a model server (docs/models.md), and `npx` and `uvx`, parts of Node.js and of uv, which fetch the MCP servers
when they are first used.
"""

from __future__ import annotations

import asyncio
import tempfile

from gaia.mcp.aio import ToolAgent

FOLDER = tempfile.gettempdir()  # mostly /tmp
CONFIG = {
    "mcpServers": {
        "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", FOLDER]},
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
    }
}


async def main() -> None:
    agent = ToolAgent(mcp_config=CONFIG, tool_threshold=15)  # deferred_tools=True: also with fewer tools
    print(await agent.chat(f"How old are the files in {FOLDER}?"))
    print(f"The agent has {len(agent.tool_registry)} tools")
    await agent.cleanup()


asyncio.run(main())
