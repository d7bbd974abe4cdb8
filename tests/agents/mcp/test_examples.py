"""The usage examples of document 000, as they stand; an `npx` of our own starts the servers that they name."""
# ruff: noqa: T201 - the examples print

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaia.agents.base.agent import Agent
from gaia.agents.base.tools import ToolRegistry
from gaia.mcp import MCPClientMixin
from gaia.mcp.client import MCPClient, MCPClientManager
from gaia.mcp.client.config import MCPConfig
from tests.support.processes import background_threads

FAKE_NPX = Path(__file__).parents[2] / "servers" / "npx.py"


@pytest.fixture(autouse=True)
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program `npx` on the path; afterwards all connections are closed."""
    program = tmp_path / "npx"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKE_NPX}" "$@"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    managers: list[MCPClientManager] = []
    original = MCPClientManager.__init__

    def remember(self: MCPClientManager, *args: Any, **kwargs: Any) -> None:
        managers.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(MCPClientManager, "__init__", remember)
    yield
    for manager in managers:
        manager.disconnect_all()
    assert background_threads() == []


@pytest.fixture
def example(tmp_path: Path) -> str:
    path = tmp_path / "example.txt"
    path.write_text("file contents...", "utf-8")
    return str(path)


def own_tools(registry: ToolRegistry) -> list[str]:
    return [name for name in registry if name.startswith("mcp_")]


@pytest.mark.requirement("S0-64")
def test_agent_with_single_mcp_server(example: str) -> None:
    class MyAgent(Agent, MCPClientMixin):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)

            # Connect to filesystem MCP server
            self.connect_mcp_server(
                "filesystem",
                {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]},
            )

    # Use agent - MCP tools available immediately
    agent = MyAgent()
    assert own_tools(agent.tool_registry) == ["mcp_filesystem_read_file", "mcp_filesystem_write_file"]
    assert agent.tool_registry["mcp_filesystem_read_file"]["function"](path=example) == {
        "status": "success",
        "message": "Tool 'read_file' returned data",
        "data": {"content": [{"type": "text", "text": "file contents..."}]},
        "instruction": "Parse this JSON data and provide a human-readable summary. "
        "Your answer must be a plain text string, not a JSON object.",
    }


@pytest.mark.requirement("S0-64")
def test_agent_with_multiple_mcp_servers() -> None:
    class MultiToolAgent(Agent, MCPClientMixin):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)

            # Connect to multiple MCP servers
            self.connect_mcp_server(
                "filesystem",
                {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]},
            )

            self.connect_mcp_server(
                "github",
                {
                    "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-github"],
                    "env": {"GITHUB_TOKEN": "ghp_xxx"},
                },
            )

    # All tools from both servers are available
    agent = MultiToolAgent()
    assert own_tools(agent.tool_registry) == [
        "mcp_filesystem_read_file",
        "mcp_filesystem_write_file",
        "mcp_github_read_file",
    ]
    data = agent.tool_registry["mcp_github_read_file"]["function"]()["data"]
    assert data["content"][0]["text"] == "ghp_xxx"


@pytest.mark.requirement("S0-64")
def test_loading_servers_from_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    config = MCPConfig()
    for name in ("filesystem", "github"):
        config.add_server(name, {"command": "npx", "args": ["-y", f"@modelcontextprotocol/server-{name}", "/tmp"]})

    class ConfigAgent(Agent, MCPClientMixin):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)

            # Load all servers from ~/.gaia/mcp_servers.json
            count = self.load_mcp_servers_from_config()
            print(f"Loaded {count} MCP servers")

    agent = ConfigAgent()
    servers = agent.list_mcp_servers()
    print(f"Connected to: {', '.join(servers)}")
    assert capsys.readouterr().out == "Loaded 2 MCP servers\nConnected to: filesystem, github\n"


@pytest.mark.requirement("S0-64")
def test_direct_client_usage(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Create client from config
    client = MCPClient.from_config(
        name="filesystem",
        config={"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]},
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
        result = client.call_tool("read_file", {"path": example})
        if "content" in result:
            print(result["content"][0]["text"])
        elif "error" in result:
            print(f"Error: {result['error']}")

        # Disconnect when done
        client.disconnect()
    assert capsys.readouterr().out == "- read_file: Read file contents\n- write_file: Write a file\nfile contents...\n"


@pytest.mark.requirement("S0-64")
def test_using_the_manager(capsys: pytest.CaptureFixture[str]) -> None:
    # Create manager with config file
    config = MCPConfig("~/.gaia/mcp_servers.json")
    config.add_server("github", {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]})
    manager = MCPClientManager(config=config)

    # Add servers programmatically
    client = manager.add_server(
        "filesystem", {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]}
    )
    assert client.is_connected()

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
    assert capsys.readouterr().out == (
        "Servers: ['filesystem']\nTools available: 2\nServers: ['filesystem', 'github']\n"
    )


@pytest.mark.requirement("S0-64")
def test_error_handling(capsys: pytest.CaptureFixture[str]) -> None:
    class SafeAgent(Agent, MCPClientMixin):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)

            # Check connection success
            success = self.connect_mcp_server(
                "filesystem",
                {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]},
            )

            if not success:
                print("Warning: Failed to connect to MCP server")
            else:
                print("Successfully connected to MCP server")

    # Tool execution errors are returned in result
    agent = SafeAgent()
    client = agent.get_mcp_client("filesystem")
    assert client is not None
    result = client.call_tool("read_file", {"path": "/nonexistent"})

    if "error" in result:
        print(f"Tool failed: {result['error']}")
    elif "content" in result:
        print(f"Success: {result['content']}")
    assert capsys.readouterr().out == (
        "Successfully connected to MCP server\nTool failed: [Errno 2] No such file or directory: '/nonexistent'\n"
    )


@pytest.mark.requirement("S0-35")
@pytest.mark.requirement("S0-64")
def test_validation_errors_have_the_schema_in_them() -> None:
    config = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]}
    with MCPClient.from_config("filesystem", config) as client:
        error = client.call_tool("read_file", {"encoding": "utf-8"})["error"]
    assert error.startswith(
        "MCP tool 'read_file' input validation failed.\n\n"
        "Error details:\nInvalid params: missing required parameter 'path'\n\n"
        "Expected tool schema:\n{\n"
    )


@pytest.mark.requirement("S0-12")
@pytest.mark.requirement("S0-64")
def test_debug_mode() -> None:
    # Via MCPClient
    client = MCPClient.from_config("server", {"command": "npx", "args": ["-y", "@mcp/server"]}, debug=True)

    # Via MCPClientManager
    manager = MCPClientManager(debug=True)

    # Via MCPClientMixin (in agent)
    class DebugAgent(Agent, MCPClientMixin):
        def __init__(self, **kwargs: Any) -> None:
            kwargs["debug"] = True  # Enables MCP debug logging
            super().__init__(**kwargs)
            self.connect_mcp_server("server", {"command": "npx", "args": ["-y", "@mcp/server"]})

    connected = DebugAgent().get_mcp_client("server")
    assert connected is not None
    assert (client.debug, manager.debug, connected.debug) == (True, True, True)


@pytest.mark.requirement("S0-64")
def test_a_second_run_of_an_agent_finds_its_servers_in_the_file_and_succeeds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        test_error_handling(capsys)
