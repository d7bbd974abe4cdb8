"""Agents made of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gaia_bridge.text.json_types import JSON

__all__ = ["ScriptedAgent", "one_tool", "tool"]


def tool(name: str, **properties: Any) -> JSON:
    """A tool definition whose arguments are all required; with none, it takes any object."""
    schema: JSON = {"type": "object", "properties": properties}
    if properties:
        schema["required"] = list(properties)
    return {"name": name, "inputSchema": schema}


class ScriptedAgent:
    """An agent that does what a test says.

    Args:
        execute: What `execute_mcp_tool` does; may be a coroutine function.
        tools: Tool definitions; a name alone stands for a tool that takes any object.
        hooks: Further methods of the agent, by their names.
    """

    def __init__(self, execute: Callable[[str, JSON], Any], *tools: JSON | str, **hooks: Any) -> None:
        self.execute_mcp_tool: Any = execute
        self.tools: list[Any] = [tool(item) if isinstance(item, str) else item for item in tools]
        for name, hook in hooks.items():
            setattr(self, name, hook)

    def get_mcp_tool_definitions(self) -> list[Any]:
        return self.tools


def one_tool(run: Callable[[JSON], Any], name: str = "work", **hooks: Any) -> ScriptedAgent:
    """An agent with a single tool, which takes any object and calls `run` with it."""
    return ScriptedAgent(lambda _, arguments: run(arguments), name, **hooks)
