"""An agent that uses whatever MCP servers are configured.

    gaia mcp add time "uvx mcp-server-time"
    python docs/examples/client/config_agent.py

It needs the servers that it finds in `~/.gaia/mcp_servers.json` and `./mcp_servers.json`, here one that `uvx` fetches,
a part of uv; and no model.
"""

from __future__ import annotations

from typing import Any

from gaia.agents.base.agent import Agent
from gaia.mcp import MCPClientMixin


class ConfigAgent(Agent, MCPClientMixin):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

        # Load all servers from ~/.gaia/mcp_servers.json
        count = self.load_mcp_servers_from_config()
        print(f"Loaded {count} MCP servers")


if __name__ == "__main__":
    agent = ConfigAgent()
    servers = agent.list_mcp_servers()
    print(f"Connected to: {', '.join(servers)}")
