"""An agent with a tool, a prompt and a resource.

    gaia-bridge serve docs/examples/published/project_agent.py

It needs no model. `get_mcp_prompt` and `read_mcp_resource` make it possible to use what the two lists show.
"""

from __future__ import annotations

from typing import Any

from gaia import AgentConsole
from gaia.agents.base import Agent, MCPAgent


class ProjectAgent(MCPAgent, Agent):
    """Agent with prompts and resources."""

    def _get_system_prompt(self) -> str:
        return "You are a project management agent."

    def _create_console(self) -> AgentConsole:
        return AgentConsole()

    def _register_tools(self) -> None:
        pass

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "get-status",
                "description": "Get project status",
                "inputSchema": {"type": "object", "properties": {}},
            }
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool_name == "get-status":
            return {"status": "active", "tasks": 42, "completed": 30}
        raise ValueError(f"Unknown tool: {tool_name}")

    def get_mcp_prompts(self) -> list[dict[str, Any]]:
        return [{"name": "daily-standup", "description": "Generate daily standup report", "arguments": []}]

    def get_mcp_prompt(self, name: str, arguments: dict[str, Any]) -> str:
        return "Ask for the project's status, and report what is done and what is left."

    def get_mcp_resources(self) -> list[dict[str, Any]]:
        return [
            {
                "uri": "project://dashboard",
                "name": "Project Dashboard",
                "description": "Current project metrics",
                "mimeType": "application/json",
            }
        ]

    def read_mcp_resource(self, uri: str) -> dict[str, Any]:
        return self.execute_mcp_tool("get-status", {})
