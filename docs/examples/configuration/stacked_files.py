"""Which MCP servers are configured, and by which file: the local file lies over the global one.

    python docs/examples/configuration/stacked_files.py

It needs `~/.gaia/mcp_servers.json`, `./mcp_servers.json`, both or neither, such as

    {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}
    {"mcpServers": {"acer": {"command": "dotnet", "args": ["run", "--project", "/path/to/oem"]}}}

with which both "time" and "acer" are available. It starts no server.
"""

from __future__ import annotations

from gaia.mcp.client.config import MCPConfig

config = MCPConfig()
for name, entry in config.get_servers().items():
    print(f"{name}: {entry.get('command') or entry.get('url')} (from {config.folder_of(name) / 'mcp_servers.json'})")
print(f"New servers are written to {config.config_file}")

# With an explicit file there is no stacking
only = MCPConfig("mcp_servers.json")
print(f"./mcp_servers.json alone has: {', '.join(only.get_servers()) or 'nothing'}")
