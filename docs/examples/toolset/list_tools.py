"""Which servers of the toolset are switched on, and what tools they bring: to see what is wrong.

    MCP_FETCH=True python docs/examples/toolset/list_tools.py

It needs `uvx`, a part of uv, which fetches the MCP server when it is first used; and no model.
"""

from __future__ import annotations

from gaia.mcp.toolset import create_mcp_tools, get_enabled_mcp_servers

if __name__ == "__main__":
    for server in get_enabled_mcp_servers():
        print(f"{server.name}: {server.command} {' '.join(server.args or [])}")
    tools = create_mcp_tools()
    print(f"Created {len(tools)} MCP tools")
    for tool in tools:
        print(f"  {tool.name}: {tool.description[:60]}...")
