"""The parts that both shipped agents share: base class, dispatch of tools, and the request they work for."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gaia_bridge import __version__
from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.errors import ToolError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.sources.agent.announcer import AnnouncesChanges
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia.agents.base.mcp_agent import MCPAgent
else:
    try:
        from gaia.agents.base.mcp_agent import MCPAgent
    except ImportError:  # another `gaia`, or one whose own dependencies are missing: the methods alone are enough

        class MCPAgent:
            """Stands in for the base class; the bridge accepts any object with the right methods."""


__all__ = ["ShippedAgent", "current_request", "server_info"]

_OFFLINE = {"silent_mode": True, "skip_lemonade": True}
"""Arguments with which a base class needs no console and no model server: ours knows the first, AMD's both."""


class ShippedAgent(MCPAgent, AnnouncesChanges):
    """An agent that works without a model, on whichever `MCPAgent` is installed: ours or that of amd-gaia.

    A subclass says what its tools are (`tools`) and what runs them (`handlers`); arguments are validated against the
    tool's own input schema, also when the agent is called directly.
    """

    tools: tuple[JSON, ...]
    """MCP tool definitions."""

    def __init__(self) -> None:
        parameters = inspect.signature(super().__init__).parameters
        offline: dict[str, Any] = {name: value for name, value in _OFFLINE.items() if name in parameters}
        super().__init__(**offline)

    @property
    @abstractmethod
    def handlers(self) -> Mapping[str, Callable[..., JSON]]:
        """The function of each tool, by its name; called with the tool's arguments as keywords."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """List the tools."""
        return list(self.tools)

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> JSON:
        """Run a tool.

        Raises:
            ValueError: There is no such tool.
            ToolError: The arguments do not fit, or the tool could not do its work; says why and what to do.
        """
        handler = self.handlers.get(tool_name)
        if handler is None:
            raise ValueError(f"Unknown tool: {tool_name!r}. Expected one of {', '.join(self.handlers)}.")
        if errors := self._validators[tool_name].errors(arguments):
            raise ToolError(f"Invalid arguments for {tool_name}:\n{errors}")
        return handler(**arguments)

    @cached_property
    def _validators(self) -> dict[str, SchemaValidator]:
        return {tool["name"]: SchemaValidator(tool["inputSchema"]) for tool in self.tools}

    def _register_tools(self) -> None:
        """Nothing for a model of this process: the tools are for MCP clients. AMD's base class insists on this."""


def server_info(name: str, title: str, description: str, instructions: str) -> JSON:
    """MCP server metadata; the version is the bridge's."""
    return {
        "name": name,
        "version": __version__,
        "title": title,
        "description": description,
        "instructions": instructions,
    }


def current_request() -> RequestContext | None:
    """Return the client's request that is being worked on; `None` when the agent is called directly."""
    try:
        return get_request_context()
    except LookupError:
        return None
