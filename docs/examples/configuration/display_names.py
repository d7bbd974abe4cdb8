"""How tools of MCP servers are called: by their own names to people, by longer ones that nothing else has to programs.

    python docs/examples/configuration/display_names.py

It needs a model server (docs/models.md), and `uvx`, a part of uv, which fetches the MCP server when it is first used.
"""

from __future__ import annotations

from typing import Any

from gaia.agents.base.agent import Agent
from gaia.agents.base.tools import get_tool_display_name
from gaia.mcp import MCPClientMixin


class ClockAgent(Agent, MCPClientMixin):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connect_mcp_server("time", {"command": "uvx", "args": ["mcp-server-time"]})


if __name__ == "__main__":
    agent = ClockAgent()
    for tool_name in agent.tool_registry:
        print(f"{tool_name} is shown as: {get_tool_display_name(tool_name)}")
    print(agent.run("What time is it in Lisbon?"))  # the console says meanwhile which tool is used
