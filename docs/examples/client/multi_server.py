"""An agent that uses two MCP servers, with a key for one of them.

    GITHUB_TOKEN=ghp_... python docs/examples/client/multi_server.py

It needs a model server (docs/models.md), `npx`, a part of Node.js, which fetches the MCP servers when they are first
used, and a token of GitHub. The two servers have more than fifteen tools together, so the model searches for those that
it needs (docs/chat.md).
"""

from __future__ import annotations

import tempfile
from typing import Any

from gaia.agents.base.agent import Agent
from gaia.mcp import MCPClientMixin

FOLDER = tempfile.gettempdir()  # mostly /tmp


class MultiToolAgent(Agent, MCPClientMixin):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

        # Connect to multiple MCP servers
        self.connect_mcp_server(
            "filesystem",
            {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", FOLDER]},
        )

        self.connect_mcp_server(
            "github",
            {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-github"],
                "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"},  # of the environment; servers are given no other variable
            },
        )


if __name__ == "__main__":
    # All tools from both servers are available
    agent = MultiToolAgent()
    response = agent.run(f"List files in {FOLDER}, then create a GitHub issue about them")
    print(response)
