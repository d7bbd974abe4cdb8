"""Three ways to have written down what happens between an agent and its MCP servers.

    python docs/examples/client/debug_mode.py

It needs `npx`, a part of Node.js, which fetches the MCP server when it is first used; and no model. What is written is
at level DEBUG: the program decides where to.
"""

from __future__ import annotations

import logging
import tempfile
from typing import Any

from gaia.agents.base.agent import Agent
from gaia.mcp import MCPClientManager, MCPClientMixin
from gaia.mcp.client import MCPClient

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
logging.getLogger("gaia.mcp").setLevel(logging.DEBUG)

SERVER = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", tempfile.gettempdir()]}


# Via MCPClientMixin (in agent)
class DebugAgent(Agent, MCPClientMixin):
    def __init__(self, **kwargs: Any) -> None:
        kwargs["debug"] = True  # Enables MCP debug logging
        super().__init__(**kwargs)
        self.connect_mcp_server("server", SERVER)


if __name__ == "__main__":
    # Via MCPClient
    with MCPClient.from_config("one", SERVER, debug=True) as client:
        client.call_tool("list_allowed_directories", {})

    # Via MCPClientManager
    manager = MCPClientManager(debug=True)
    manager.load_from_config()
    manager.disconnect_all()

    agent = DebugAgent()
    agent.disconnect_mcp_server("server")  # also takes it out of mcp_servers.json again
