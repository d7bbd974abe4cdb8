"""The classes an agent derives from, the `tool` decorator, and what running code may ask of its client."""

from __future__ import annotations

from gaia.agents.base.agent import Agent
from gaia.agents.base.api_agent import ApiAgent
from gaia.agents.base.mcp_agent import MCPAgent
from gaia.agents.base.tool_class import Tool
from gaia.agents.base.tools import tool
from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.errors import ResourceNotFoundError, ToolError

__all__ = [
    "Agent",
    "ApiAgent",
    "MCPAgent",
    "RequestContext",
    "ResourceNotFoundError",
    "Tool",
    "ToolError",
    "get_request_context",
    "tool",
]
