"""An agent that decides itself what is done with the tools of its MCP servers: here, it notes how often each is used.

    python docs/examples/client/custom_wrapper.py

It needs a model server (docs/models.md), and `uvx`, a part of uv, which fetches the MCP server when it is first used.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from gaia.agents.base.agent import Agent
from gaia.mcp import MCPClientMixin
from gaia.mcp.client import MCPClient, MCPTool


# Override _register_mcp_tools in your agent
class CustomAgent(Agent, MCPClientMixin):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.used: Counter[str] = Counter()
        self.connect_mcp_server("time", {"command": "uvx", "args": ["mcp-server-time"]})

    def _register_mcp_tools(self, client: MCPClient) -> None:
        tools = client.list_tools()
        for tool in tools:
            gaia_tool = tool.to_gaia_format(client.name)

            # Custom wrapper with additional logic
            def custom_wrapper(tool: MCPTool = tool, **kwargs: Any) -> dict[str, Any]:
                result = client.call_tool(tool.name, kwargs)
                # Add custom processing
                self.used[tool.name] += 1
                return result

            gaia_tool["function"] = custom_wrapper
            self.tool_registry.register(gaia_tool)


if __name__ == "__main__":
    agent = CustomAgent()
    print(agent.run("What time is it in Lisbon?"))
    print(dict(agent.used))
