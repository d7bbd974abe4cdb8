"""One MCP server, used without an agent and without a model.

    echo hello > /tmp/example.txt
    python docs/examples/client/direct_client.py

It needs `npx`, a part of Node.js, which fetches the MCP server when it is first used.
"""

from __future__ import annotations

import tempfile

from gaia.mcp.client import MCPClient

FOLDER = tempfile.gettempdir()  # mostly /tmp

# Create client from config
client = MCPClient.from_config(
    name="filesystem",
    config={"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", FOLDER]},
    timeout=30,
    debug=False,
)

# Connect to server
if client.connect():
    # List available tools
    tools = client.list_tools()
    for tool in tools:
        print(f"- {tool.name}: {tool.description}")

    # Call tool directly
    result = client.call_tool("read_file", {"path": f"{FOLDER}/example.txt"})
    if "content" in result:
        print(result["content"][0]["text"])
    elif "error" in result:
        print(f"Error: {result['error']}")

    # Disconnect when done
    client.disconnect()
