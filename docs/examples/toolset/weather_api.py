"""How another MCP server is registered, with an environment variable that switches it on and a key that it needs.

    MCP_WEATHER_API=True WEATHER_API_KEY=... python docs/examples/toolset/weather_api.py

or with both in the file `.env` of the current folder. It needs a model server (docs/models.md), `npx`, a part of
Node.js, and a server: the package `@myorg/mcp-server-weather` stands for one of your own.
"""

from __future__ import annotations

from gaia.agents.base import Agent
from gaia.environment import setting
from gaia.mcp.toolset import ALL_SERVERS, MCPServerConfig, create_mcp_tools

# Add to server registry
WEATHER_API_SERVER = MCPServerConfig(
    name="weather_api",
    env_var="MCP_WEATHER_API",
    command="npx",
    args=["-y", "@myorg/mcp-server-weather"],
    transport="stdio",  # or "http"
    env={"API_KEY": setting("WEATHER_API_KEY", "") or ""},
    url=None,  # Required if transport="http"
    allowed_tools=["get_forecast", "get_current"],  # Optional whitelist
)

# Register it
ALL_SERVERS.append(WEATHER_API_SERVER)


if __name__ == "__main__":
    # In your agent
    agent = Agent(tools=create_mcp_tools(server_names=["weather_api"]), system_prompt="You know the weather.")
    print(agent.run("What will the weather be in Paris tomorrow?"))
