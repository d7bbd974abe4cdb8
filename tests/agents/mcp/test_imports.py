"""Every import path of document 000, and what importing costs."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest


@pytest.mark.requirement("S0-1", "S0-2")
@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("gaia.mcp", ["MCPClientMixin", "MCPClient", "MCPClientManager"]),
        ("gaia.mcp.mixin", ["MCPClientMixin", "MCPClientManager"]),
        ("gaia.mcp.client", ["MCPClient", "MCPClientManager", "MCPConfig", "MCPTool"]),
        ("gaia.mcp.client.config", ["MCPConfig"]),
        ("gaia.mcp.client.mcp_client", ["MCPClient", "MCPTool"]),
        ("gaia.mcp.client.mcp_client_manager", ["MCPClientManager", "MCPClient"]),
        ("gaia.mcp.client.transports", ["MCPTransport", "StdioTransport", "HTTPTransport"]),
        ("gaia.mcp.client.transports.base", ["MCPTransport"]),
        ("gaia.mcp.client.transports.stdio", ["StdioTransport"]),
        ("gaia.mcp.client.transports.http", ["HTTPTransport"]),
        ("gaia.agents.base.agent", ["Agent"]),
    ],
)
def test_names_import_from_where_the_specification_says(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


def test_importing_the_client_does_not_load_the_sdk_nor_start_a_thread() -> None:
    source = (
        "import sys, threading, gaia.mcp; "
        "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'starlette', 'httpx2')], "
        "threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[] 1\n"
