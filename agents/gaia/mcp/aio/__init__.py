"""MCP servers for asynchronous code (document 002): a manager of connections."""

from __future__ import annotations

from gaia.mcp.aio.limits import ManagerLimits
from gaia.mcp.aio.manager import MCPClientManager

__all__ = ["MCPClientManager", "ManagerLimits"]
