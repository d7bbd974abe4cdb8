"""One agent for MCP clients, such as editors, and for clients of OpenAI's API.

    gaia-bridge serve docs/examples/published/code_agent.py

MCP clients call its tool themselves. Chat clients choose the model `gaia-code` at `http://127.0.0.1:8765/v1`; to answer
them, the agent needs a model server of its own (docs/models.md).
"""

from __future__ import annotations

from typing import Any

from gaia import AgentConsole
from gaia.agents.base import Agent, ApiAgent, MCPAgent


class CodeAgent(MCPAgent, ApiAgent, Agent):
    """Code agent exposed via MCP and OpenAI API."""

    def _get_system_prompt(self) -> str:
        return "You are an autonomous coding agent."

    def _create_console(self) -> AgentConsole:
        return AgentConsole()

    def _register_tools(self) -> None:
        pass

    # MCP methods
    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "analyze-code",
                "description": "Analyze code quality",
                "inputSchema": {
                    "type": "object",
                    "properties": {"file_path": {"type": "string"}},
                    "required": ["file_path"],
                },
            }
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool_name == "analyze-code":
            # Analysis logic
            return {
                "quality_score": 85,
                "issues": 3,
                "suggestions": ["Add type hints", "Add docstrings"],
            }
        raise ValueError(f"Unknown tool: {tool_name}")

    # API methods
    def get_model_id(self) -> str:
        return "gaia-code"

    def get_model_info(self) -> dict[str, Any]:
        return {
            "max_input_tokens": 32768,
            "max_output_tokens": 8192,
            "description": "Autonomous Python coding agent",
        }


# Can be used via:
# 1. MCP: VSCode extension -> execute_mcp_tool("analyze-code", ...)
# 2. API: POST /v1/chat/completions with model="gaia-code"
