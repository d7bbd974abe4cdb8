"""Which servers are switched on, and what tools they bring: `MCP_FETCH=True python list_tools.py`."""
# ruff: noqa: T201 - the examples print

from __future__ import annotations

from gaia.mcp.toolset import create_mcp_tools, get_enabled_mcp_servers

if __name__ == "__main__":
    for server in get_enabled_mcp_servers():
        print(f"{server.name}: {server.command} {' '.join(server.args or [])}")
    tools = create_mcp_tools()
    print(f"Created {len(tools)} MCP tools")
    for tool in tools:
        print(f"  {tool.name}: {tool.description[:60]}...")
