"""The Model Context Protocol, from an agent author's side."""

from __future__ import annotations

from gaia.mcp.client import MCPClient, MCPClientManager
from gaia.mcp.mixin import MCPClientMixin

__all__ = ["MCPClient", "MCPClientManager", "MCPClientMixin"]
