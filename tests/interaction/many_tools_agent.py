"""An agent with two thousand tools, most of which do nothing.

gaia-bridge serve tests/interaction/many_tools_agent.py
"""

from __future__ import annotations

from typing import Any, Final

from gaia.agents.base import MCPAgent, get_request_context
from gaia_bridge.text.json_types import JSON

__all__ = ["TOOLS", "ManyToolsAgent"]

_REAL: Final[list[JSON]] = [
    {
        "name": "convert_distance",
        "description": "Converts a distance into miles.",
        "inputSchema": {
            "type": "object",
            "properties": {"kilometres": {"type": "number", "description": "The distance."}},
            "required": ["kilometres"],
        },
    },
    {"name": "ask", "description": "Asks the user for a size.", "inputSchema": {"type": "object"}},
]

TOOLS: Final[dict[str, JSON]] = {
    **{tool["name"]: tool for tool in _REAL},
    **{f"tool_{number}": {"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(1_998)},
}


class ManyToolsAgent(MCPAgent):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(silent_mode=True)

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return list(TOOLS.values())

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        if tool_name == "convert_distance":
            return {"miles": round(arguments["kilometres"] * 0.62, 2)}
        if tool_name == "ask":
            get_request_context().report_progress(1, message="asking")
            answer = get_request_context().elicit("Which size?", {"size": {"type": "integer"}})
            return {"action": answer.action, **answer.content}
        return {"did": tool_name}
