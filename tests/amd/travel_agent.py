"""An agent as a user of amd-gaia writes it: nothing in it knows the bridge."""

from __future__ import annotations

import logging
from typing import Any, Final

from gaia.agents.base.mcp_agent import MCPAgent

TOOLS: Final[list[dict[str, Any]]] = [
    {
        "name": "plan-trip",
        "title": "Plan a trip",
        "description": "Plans a trip — by train or car.",
        "inputSchema": {
            "type": "object",
            "title": "Trip",
            "properties": {
                "mode": {"type": "string", "enum": ["train", "car"], "default": "train", "description": "How"},
                "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}, "minItems": 1},
                "contact": {"type": "object", "properties": {"email": {"type": "string", "format": "email"}}},
                "class": {"type": ["integer", "null"]},
                "x-y": {"anyOf": [{"const": 1}, {"const": 2}]},
            },
            "required": ["stops"],
            "additionalProperties": False,
            "$defs": {
                "stop": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "nights": {"type": "integer", "minimum": 1}},
                    "required": ["city", "nights"],
                }
            },
        },
        "outputSchema": {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "complain", "description": "Logs a warning.", "inputSchema": {"type": "object", "properties": {}}},
]
PROMPTS: Final[list[dict[str, Any]]] = [
    {"name": "advise", "description": "Advice", "arguments": [{"name": "city", "required": True}]}
]
RESOURCES: Final[list[dict[str, Any]]] = [{"uri": "trip://latest", "name": "latest", "mimeType": "application/json"}]


class TravelAgent(MCPAgent):
    """Plans trips."""

    def __init__(self, **options: Any) -> None:
        super().__init__(skip_lemonade=True, **options)

    def _register_tools(self) -> None: ...

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return TOOLS

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool_name == "plan-trip":
            return {"nights": sum(stop["nights"] for stop in arguments["stops"])}
        logging.getLogger("travel").warning("the train\nis late")
        return {}

    def get_mcp_prompts(self) -> list[dict[str, Any]]:
        return PROMPTS

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> str:
        return f"What should I see in {arguments['city']}?"

    def get_mcp_resources(self) -> list[dict[str, Any]]:
        return RESOURCES

    def read_mcp_resource(self, uri: str) -> dict[str, Any]:
        return {"nights": 5}

    def get_mcp_server_info(self) -> dict[str, Any]:
        return {"name": "travel", "version": "3.1"}


class UnfinishedAgent(MCPAgent):
    """Abstract on amd-gaia, whose agents have to say what their model may call."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return []

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {}
