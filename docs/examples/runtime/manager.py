"""The asynchronous manager of MCP servers, from its configuration file to its end.

    echo '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}' > mcp.json
    python docs/examples/runtime/manager.py

It needs the servers of `mcp.json`, here one that `uvx` fetches, a part of uv; and no model.
"""

from __future__ import annotations

import asyncio

from gaia.mcp.aio import MCPClientManager


async def main() -> None:
    manager = MCPClientManager(config_path="mcp.json")
    await manager.connect_to_servers()
    print(f"Connected to: {', '.join(manager.sessions)}")

    # Tools in the shape of OpenAI's function calling, and who owns them
    for tool in await manager.get_tools():
        name = tool["function"]["name"]
        print(f"- {name} ({manager.server_tools_map[name]}): {tool['function']['description']}")

    # Calls find their server by themselves
    print(
        await manager.execute_tool("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "?"})
    )
    result = await manager.execute_tool("get_current_time", {"timezone": "Europe/Lisbon"})
    print(result["content"] if result["success"] else f"Error: {result['error']}")

    # Shut down all server connections
    await manager.cleanup()


asyncio.run(main())
