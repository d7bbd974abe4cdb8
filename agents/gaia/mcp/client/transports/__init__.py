"""How an `MCPClient` reaches its server: as a child process, over HTTP, in this process, or in a way of your own."""

from __future__ import annotations

from gaia.mcp.client.transports.agent import AgentTransport
from gaia.mcp.client.transports.base import MCPTransport
from gaia.mcp.client.transports.http import HTTPTransport
from gaia.mcp.client.transports.stdio import StdioTransport

__all__ = ["AgentTransport", "HTTPTransport", "MCPTransport", "StdioTransport"]
