"""MCP servers as tools of an agent, for any provider of language models.

    from gaia.mcp.toolset import create_mcp_tools

    tools = create_mcp_tools(server_names=["fetch"])

The servers are registered in code (`ALL_SERVERS`) and switched on by the environment or `.env` (`MCP_FETCH=True`).
"""

from __future__ import annotations

from gaia.mcp.toolset.client_manager import MCPClientManager
from gaia.mcp.toolset.mcp_config import ALL_SERVERS, FETCH_SERVER, MCPServerConfig, get_enabled_mcp_servers
from gaia.mcp.toolset.mcp_tools import MCPToolWrapper, create_mcp_tools
from gaia.mcp.toolset.schema_converter import MCPSchemaConverter

__all__ = [
    "ALL_SERVERS",
    "FETCH_SERVER",
    "MCPClientManager",
    "MCPSchemaConverter",
    "MCPServerConfig",
    "MCPToolWrapper",
    "create_mcp_tools",
    "get_enabled_mcp_servers",
]
