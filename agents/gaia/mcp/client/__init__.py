"""Clients of MCP servers: one server (`MCPClient`), or all that are configured (`MCPClientManager`)."""

from __future__ import annotations

from gaia.mcp.client.config import MCPConfig
from gaia.mcp.client.mcp_client import MCPClient
from gaia.mcp.client.mcp_client_manager import MCPClientManager
from gaia.mcp.client.mcp_tool import MCPTool
from gaia.mcp.client.transports import AgentTransport, HTTPTransport, MCPTransport, StdioTransport

__all__ = [
    "AgentTransport",
    "HTTPTransport",
    "MCPClient",
    "MCPClientManager",
    "MCPConfig",
    "MCPTool",
    "MCPTransport",
    "StdioTransport",
]
