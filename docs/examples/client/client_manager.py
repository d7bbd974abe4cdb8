"""Several MCP servers and the file that they are remembered in, without an agent and without a model.

    python docs/examples/client/client_manager.py

It needs `npx`, a part of Node.js, which fetches the MCP server when it is first used. That server is written into
`~/.gaia/mcp_servers.json`; `gaia mcp remove filesystem` takes it out again.
"""

from __future__ import annotations

import tempfile

from gaia.mcp.client import MCPClientManager
from gaia.mcp.client.config import MCPConfig

FOLDER = tempfile.gettempdir()  # mostly /tmp

# Create manager with config file
config = MCPConfig("~/.gaia/mcp_servers.json")
manager = MCPClientManager(config=config)

# Add servers programmatically
client = manager.add_server(
    "filesystem",
    {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", FOLDER]},
)

# List all connected servers
servers = manager.list_servers()
print(f"Servers: {servers}")

# Get specific client
fs_client = manager.get_client("filesystem")
if fs_client and fs_client.is_connected():
    tools = fs_client.list_tools()
    print(f"Tools available: {len(tools)}")

# Load additional servers from config file
manager.load_from_config()
print(f"Servers: {manager.list_servers()}")

# Cleanup all connections
manager.disconnect_all()
