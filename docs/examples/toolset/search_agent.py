"""An agent that reads pages of the web.

    MCP_FETCH=True python docs/examples/toolset/search_agent.py

It needs a model server (docs/models.md), and `uvx`, a part of uv, which fetches the MCP server when it is first used.
"""

from __future__ import annotations

from gaia.agents.base import Agent
from gaia.mcp.toolset import create_mcp_tools


class SearchAgent(Agent):
    """Agent with only web fetching capabilities."""

    def __init__(self) -> None:
        super().__init__(
            tools=create_mcp_tools(server_names=["fetch"]),
            system_prompt="You are a research assistant. Use the fetch tool to access web pages and answer questions "
            "based on their content.",
            agent_type="search",
        )


if __name__ == "__main__":
    agent = SearchAgent()
    for chunk in agent.stream("What's on this page: https://example.com"):
        print(chunk, end="", flush=True)
