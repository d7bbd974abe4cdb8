"""The one manager of the process is empty before and after each test, and the registry is what it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gaia.mcp.toolset import ALL_SERVERS, MCPClientManager, MCPServerConfig
from tests.support.gaia_clients import sdk_server
from tests.support.processes import background_threads
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def manager() -> Iterator[MCPClientManager]:
    one = MCPClientManager()
    registered = list(ALL_SERVERS)
    yield one
    ALL_SERVERS[:] = registered
    one.stop_all()
    eventually(lambda: not background_threads())


@pytest.fixture
def demo() -> MCPServerConfig:
    """A server of the SDK, registered and always on."""
    entry = sdk_server()
    config = MCPServerConfig("demo", command=entry["command"], args=entry["args"])
    ALL_SERVERS.append(config)
    return config
