"""An agent that has a tool of its own beside those of two MCP servers, of one of them only what is no danger.

    MCP_FETCH=True MCP_ZIGBEE=True python docs/examples/toolset/home_agent.py

It needs a model server (docs/models.md), `uvx`, a part of uv, which fetches the MCP servers when they are first used,
and devices. Without `MCP_ZIGBEE=True` it does without the devices.
"""

from __future__ import annotations

from typing import Any

from gaia.agents.base import Agent, Tool
from gaia.mcp.toolset import ALL_SERVERS, MCPServerConfig, create_mcp_tools

# Only allow specific Zigbee tools
ZIGBEE_SERVER = MCPServerConfig(
    name="zigbee",
    env_var="MCP_ZIGBEE",
    command="uvx",
    args=["mcp-server-zigbee"],
    transport="stdio",
    allowed_tools=[
        "list_devices",
        "turn_on_light",
        "turn_off_light",
        # Exclude dangerous tools like "factory_reset"
    ],
)
ALL_SERVERS.append(ZIGBEE_SERVER)


class WeatherTool(Tool):
    """A tool that is written in Python."""

    def __init__(self) -> None:
        city = {"type": "string", "description": "Such as Paris"}
        super().__init__(
            "get_weather",
            "Tells the weather of a city.",
            {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False},
        )

    def call(self, /, **kwargs: Any) -> str:
        return f"It is sunny in {kwargs['city']}."


class HomeAgent(Agent):
    """Mixes tools of its own and tools of MCP servers."""

    def __init__(self) -> None:
        regular_tools: list[Tool] = [WeatherTool()]
        mcp_tools = create_mcp_tools(server_names=["fetch", "zigbee"])
        super().__init__(
            tools=[*regular_tools, *mcp_tools],
            system_prompt="You are a smart home assistant with weather info, web access, and smart home control.",
            agent_type="home",
        )


if __name__ == "__main__":
    agent = HomeAgent()
    for chunk in agent.stream("Turn on the light in the kitchen if it rains in Paris."):
        print(chunk, end="", flush=True)
