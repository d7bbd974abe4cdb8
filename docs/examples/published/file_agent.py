"""An agent with two tools, which read and write files.

    gaia-bridge serve docs/examples/published/file_agent.py

It needs no model. Whoever may use the bridge may read and write every file that you may: it shows how tools are
written, and nothing about safety.
"""

from __future__ import annotations

from typing import Any

from gaia import AgentConsole
from gaia.agents.base import Agent, MCPAgent


class FileAgent(MCPAgent, Agent):
    """Agent for file operations via MCP."""

    def _get_system_prompt(self) -> str:
        return "You are a file management agent."

    def _create_console(self) -> AgentConsole:
        return AgentConsole()

    def _register_tools(self) -> None:
        pass

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "read-file",
                "description": "Read a file",
                "inputSchema": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                },
            },
            {
                "name": "write-file",
                "description": "Write to a file",
                "inputSchema": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                    "required": ["path", "content"],
                },
            },
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool_name == "read-file":
            with open(arguments["path"], encoding="utf-8") as f:
                return {"content": f.read()}
        elif tool_name == "write-file":
            with open(arguments["path"], "w", encoding="utf-8") as f:
                f.write(arguments["content"])
            return {"status": "written"}
        else:
            raise ValueError(f"Unknown tool: {tool_name}")
