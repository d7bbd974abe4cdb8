"""The classes an agent derives from, the `tool` decorator, and what running code may ask of its client."""

from __future__ import annotations

from gaia_bridge.version import import_member

TYPE_CHECKING = False  # see gaia_bridge
_PLACES = (
    "gaia_bridge.errors",
    "gaia_bridge.calls.request_context",
    "gaia.agents.base.tools",  # its `tool` before that of the core, which knows no registry
    "gaia_bridge.sources.functions.marks",
    "gaia_bridge.model",
    "gaia.agents.base.tool_class",
    "gaia.agents.base.mcp_agent",
    "gaia.agents.base.agent",
    "gaia.agents.base.api_agent",
)
if TYPE_CHECKING:
    from gaia.agents.base.agent import Agent
    from gaia.agents.base.api_agent import ApiAgent
    from gaia.agents.base.mcp_agent import MCPAgent
    from gaia.agents.base.tool_class import Tool
    from gaia.agents.base.tools import tool
    from gaia_bridge.calls.request_context import RequestContext, get_request_context
    from gaia_bridge.errors import ResourceNotFoundError, ToolError
    from gaia_bridge.model import Progress
    from gaia_bridge.sources.functions.marks import completion, prompt, resource

__all__ = [
    "Agent",
    "ApiAgent",
    "MCPAgent",
    "Progress",
    "RequestContext",
    "ResourceNotFoundError",
    "Tool",
    "ToolError",
    "completion",
    "get_request_context",
    "prompt",
    "resource",
    "tool",
]


def __getattr__(name: str) -> object:
    """Load what is asked for (PEP 562), so that its modules can be loaded one by one, by those that classes need."""
    return import_member(__name__, __all__, _PLACES, name)
