"""The shortest agent that editors and other MCP clients can use.

    gaia-bridge serve docs/examples/published/quick_start.py

It needs no model.
"""

from __future__ import annotations

from typing import Any

from gaia.agents.base import Agent, MCPAgent


class MyAgent(MCPAgent, Agent):
    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "my-tool",
                "description": "Does something",
                "inputSchema": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                },
            }
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool_name == "my-tool":
            return {"result": arguments["text"].upper()}
        raise ValueError(f"Unknown tool: {tool_name}")
