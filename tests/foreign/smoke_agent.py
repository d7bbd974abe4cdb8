"""The agent that foreign clients are tried on, and the answers that all of them must get.

gaia-bridge serve tests/foreign/smoke_agent.py
"""

from __future__ import annotations

import threading
from typing import Any, Final

from gaia.agents.base import MCPAgent, get_request_context
from gaia_bridge.text.json_types import JSON

__all__ = ["ANSWERS", "SmokeAgent"]

PATIENCE = 10.0
"""Seconds the agent waits for its client; only a broken one needs them."""
LEARNED: Final = "wave"

TOOLS: Final[list[JSON]] = [
    {
        "name": "add-lengths",
        "title": "Add lengths",
        "description": "Adds lengths — exactly.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "title": "Lengths",
            "properties": {
                "unit": {"type": "string", "enum": ["m", "ft"], "default": "m", "description": "Of the sum"},
                "lengths": {"type": "array", "items": {"$ref": "#/$defs/length"}, "minItems": 1},
                "class": {"type": ["string", "null"], "pattern": "^[a-z]+$"},
            },
            "required": ["unit", "lengths"],
            "additionalProperties": False,
            "$defs": {
                "length": {
                    "type": "object",
                    "properties": {"value": {"type": "number", "exclusiveMinimum": 0}},
                    "required": ["value"],
                    "x-vendor": {"kept": True},
                }
            },
        },
        "outputSchema": {
            "type": "object",
            "properties": {"sum": {"type": "number"}, "unit": {"type": "string"}},
            "required": ["sum", "unit"],
        },
        "annotations": {"title": "Adder", "readOnlyHint": True, "openWorldHint": False},
        "_meta": {"example.org/order": 1},
    },
    {"name": "count", "description": "Counts until seen.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "seen", "description": "Ends a count.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "ask", "description": "Asks the user.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "learn", "description": "Gets one more tool.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "forget", "description": "Loses that tool again.", "inputSchema": {"type": "object", "properties": {}}},
]
PROMPTS: Final[list[JSON]] = [
    {
        "name": "greet",
        "title": "Greet",
        "description": "Greets somebody",
        "arguments": [
            {"name": "name", "description": "Whom", "required": True},
            {"name": "tone", "description": "How", "required": False},
        ],
    }
]
RESOURCES: Final[list[JSON]] = [
    {
        "uri": "note://today",
        "name": "today",
        "title": "Today's note",
        "description": "What is to be done",
        "mimeType": "text/plain",
        "annotations": {"audience": ["user"], "priority": 0.5},
    }
]
TEMPLATES: Final[list[JSON]] = [
    {"uriTemplate": "note://{day}", "name": "note", "description": "The note of a day", "mimeType": "text/plain"}
]
QUESTION: Final[JSON] = {
    "message": "Sure?",
    "requestedSchema": {
        "type": "object",
        "properties": {"sure": {"type": "boolean", "title": "Yes", "default": False}},
        "required": ["sure"],
    },
}

ANSWERS: Final[JSON] = {
    "server": {"name": "smoke", "version": "1.2.3"},
    "instructions": "Try everything once.",
    "tools": TOOLS,
    "prompts": PROMPTS,
    "resources": RESOURCES,
    "templates": TEMPLATES,
    "called": {"structured": {"sum": 3.5, "unit": "m"}, "text": {"sum": 3.5, "unit": "m"}, "failed": False},
    "invalid": {"failed": True, "where": ["/unit"]},
    "unknown": {"code": -32602},
    "progress": [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]],
    "counted": {"seen": True},
    "prompt": [{"role": "user", "content": {"type": "text", "text": "Say hello to Ada, kindly."}}],
    "resource": [{"uri": "note://today", "mimeType": "text/plain", "text": "Buy milk — today."}],
    "templated": [{"uri": "note://monday", "mimeType": "text/plain", "text": "Buy milk — monday."}],
    "asked": QUESTION,
    "answered": {"action": "accept", "content": {"sure": True}},
    "learned": [*(tool["name"] for tool in TOOLS), LEARNED],
}
"""What every client is told in its round: see `python_client.py`."""


class SmokeAgent(MCPAgent):
    """A bit of everything."""

    def __init__(self) -> None:
        super().__init__(silent_mode=True)
        self._learned: list[JSON] = []
        self._seen = threading.Event()

    def get_mcp_server_info(self) -> JSON:
        return {**ANSWERS["server"], "instructions": ANSWERS["instructions"]}

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [*TOOLS, *self._learned]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        match tool_name:
            case "add-lengths":
                return {"sum": sum(length["value"] for length in arguments["lengths"]), "unit": arguments["unit"]}
            case "count":
                return self._count()
            case "seen":
                self._seen.set()
                return {}
            case "ask":
                answer = get_request_context().elicit(QUESTION["message"], QUESTION["requestedSchema"])
                return {"action": answer.action, "content": dict(answer.content)}
            case "learn" | "forget":
                self._learned = [{"name": LEARNED}] if tool_name == "learn" else []
                self.notify_mcp_tools_changed()
                return {}
            case _:
                raise ValueError(f"Unknown tool: {tool_name}")

    def _count(self) -> JSON:
        """The result comes when the client has seen every step: TypeScript clients drop steps that come with it."""
        self._seen.clear()
        for step in (1, 2, 3):
            get_request_context().report_progress(step, 3, f"step {step}")
        return {"seen": self._seen.wait(PATIENCE)}

    def get_mcp_prompts(self) -> list[JSON]:
        return PROMPTS

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> str:
        return f"Say hello to {arguments['name']}, {arguments['tone']}."

    def get_mcp_resources(self) -> list[JSON]:
        return RESOURCES

    def get_mcp_resource_templates(self) -> list[JSON]:
        return TEMPLATES

    def read_mcp_resource(self, uri: str) -> str:
        return f"Buy milk — {uri.removeprefix('note://')}."
