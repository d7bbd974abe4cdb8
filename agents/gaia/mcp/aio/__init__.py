"""MCP servers for asynchronous code: a manager of connections, and an agent that uses their tools."""

from __future__ import annotations

from gaia.mcp.aio.limits import ManagerLimits
from gaia.mcp.aio.manager import MCPClientManager
from gaia.mcp.aio.tool_agent import MCPAgent, ToolAgent

__all__ = ["MCPAgent", "MCPClientManager", "ManagerLimits", "ToolAgent"]
