"""An agent that uses one MCP server.

    python docs/examples/client/single_server.py

It needs a model server (docs/models.md) and `npx`, a part of Node.js, which fetches the MCP server when it is first
used. The agent may read and write the files of the folder for temporary files.
"""

from __future__ import annotations

import tempfile
from typing import Any

from gaia.agents.base.agent import Agent
from gaia.mcp import MCPClientMixin

FOLDER = tempfile.gettempdir()  # mostly /tmp


class MyAgent(Agent, MCPClientMixin):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

        # Connect to filesystem MCP server
        self.connect_mcp_server(
            "filesystem",
            {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", FOLDER]},
        )


if __name__ == "__main__":
    # Use agent - MCP tools available immediately
    agent = MyAgent()
    result = agent.run(f"List all files in {FOLDER}")
    # The model can now use: mcp_filesystem_read_file, mcp_filesystem_write_file, etc.
    print(result)
