"""A custom transport as the specification shows it ("Extension Points")."""

from __future__ import annotations

from typing import Any

import pytest

from gaia.mcp.client import MCPClient
from gaia.mcp.client.transports.base import MCPTransport

Dict = dict


class HttpTransport(MCPTransport):
    """The specification's own, with its `pass` filled in."""

    def __init__(self, url: str, timeout: int = 30):
        self.url = url
        self.timeout = timeout
        self._connected = False

    def connect(self) -> bool:
        # Implement connection logic
        self._connected = True
        return True

    def disconnect(self) -> None:
        self._connected = False

    def send_request(self, method: str, params: Any = None) -> Dict[str, Any]:
        # Implement HTTP request
        if method == "tools/list":
            return {"result": {"tools": [{"name": "t", "description": "d", "inputSchema": {}}]}}
        return {"result": {"method": method, "params": params}}

    def is_connected(self) -> bool:
        return self._connected


@pytest.mark.requirement("S0-50")
def test_the_four_methods_are_enough() -> None:
    client = MCPClient("custom", HttpTransport("http://localhost"))
    assert client.connect()
    assert [tool.name for tool in client.list_tools()] == ["t"]
    assert client.call_tool("t", {"a": 1}) == {"method": "tools/call", "params": {"name": "t", "arguments": {"a": 1}}}
    client.disconnect()
    assert not client.is_connected()


@pytest.mark.requirement("S0-50")
@pytest.mark.parametrize("missing", ["connect", "disconnect", "send_request", "is_connected"])
def test_each_of_the_four_methods_is_needed(missing: str) -> None:
    complete = {name: getattr(HttpTransport, name) for name in MCPTransport.__abstractmethods__}
    del complete[missing]
    incomplete: type[Any] = type("Incomplete", (MCPTransport,), complete)
    with pytest.raises(TypeError, match=missing):
        incomplete()
