"""How to see that a server could not be connected, and that a tool failed.

    python docs/examples/client/safe_agent.py

It needs `npx`, a part of Node.js, which fetches the MCP server when it is first used; and no model.
"""

from __future__ import annotations

import tempfile
from typing import Any

from gaia.agents.base.agent import Agent
from gaia.mcp import MCPClientMixin

FOLDER = tempfile.gettempdir()  # mostly /tmp


class SafeAgent(Agent, MCPClientMixin):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

        # Check connection success
        success = self.connect_mcp_server(
            "filesystem",
            {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", FOLDER]},
        )

        if not success:
            print("Warning: Failed to connect to MCP server")
        else:
            print("Successfully connected to MCP server")


if __name__ == "__main__":
    # Tool execution errors are returned in result
    agent = SafeAgent()
    client = agent.get_mcp_client("filesystem")
    if client is not None:
        result = client.call_tool("read_file", {"path": "/nonexistent"})

        if "error" in result:  # the server refused the request
            print(f"Tool failed: {result['error']}")
        elif result.get("isError"):  # the tool was run, and failed
            print(f"Tool failed: {result['content'][0]['text']}")
        elif "content" in result:
            print(f"Success: {result['content']}")
