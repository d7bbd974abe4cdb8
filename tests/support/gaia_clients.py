"""Transports and agents for tests of the client API."""

from __future__ import annotations

import sys
import threading
from copy import copy
from pathlib import Path
from typing import Any

from gaia.agents.base import Agent
from gaia.mcp import MCPClient, MCPClientMixin
from gaia.mcp.client import MCPTransport
from tests.support.forking import forked
from tests.support.waiting import PATIENCE

__all__ = [
    "CountingAgent",
    "EchoAgent",
    "FakeTransport",
    "GreetedInSteps",
    "all_tools",
    "fake_client",
    "raw_server",
    "sdk_server",
]

TESTS = Path(__file__).parents[1]


class FakeTransport(MCPTransport):
    """A server that exists only here. What it is asked is in `requests`.

    Args:
        tools: The definitions it lists, in one page.
        **answers: For a tool's name, the response to a call; an exception is raised. Without one, the call is echoed.
    """

    def __init__(self, *tools: Any, **answers: Any) -> None:
        self.tools = list(tools)
        self.answers: dict[str, Any] = answers
        self.requests: list[tuple[str, Any]] = []
        self.notifications: list[str] = []
        self.connects = True
        self.connected = False

    def connect(self) -> bool:
        self.connected = self.connects
        return self.connects

    def disconnect(self) -> None:
        self.connected = False

    def is_connected(self) -> bool:
        return self.connected

    def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self.requests.append((method, params))
        answer = self.answers.get((params or {}).get("name", method), self.answers.get(method))
        if isinstance(answer, Exception):
            raise copy(answer)  # one that is kept keeps all frames that it has passed
        if answer is not None:
            return dict(answer)
        if method == "initialize":
            return {"result": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "fake"}, "capabilities": {}}}
        if method == "tools/list":
            return {"result": {"tools": list(self.tools)}}
        return {"result": {"content": [{"type": "text", "text": str(params)}]}}

    def send_notification(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.notifications.append(method)

    def change_tools(self, *tools: Any) -> None:
        """Offer other tools from now on, and say so."""
        self.tools = list(tools)
        assert self.on_notification is not None
        self.on_notification("notifications/tools/list_changed", {})

    def asked(self, method: str) -> int:
        """How often there was such a request."""
        return sum(1 for asked, _ in self.requests if asked == method)


def all_tools(tool_name: str) -> bool:
    """For `ConfiguredServer`: no tool is left out."""
    return True


class GreetedInSteps(FakeTransport):
    """A transport that stays between its connection and the greeting until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.opened, self.goes_on = threading.Event(), threading.Event()

    def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        if method == "initialize":
            self.opened.set()
            assert self.goes_on.wait(PATIENCE)
        return super().send_request(method, params)


def fake_client(*tools: Any, name: str = "fake", **answers: Any) -> tuple[MCPClient, FakeTransport]:
    """A connected client of a `FakeTransport`."""
    transport = FakeTransport(*tools, **answers)
    client = MCPClient(name, transport)
    assert client.connect()
    return client, transport


class CountingAgent(Agent, MCPClientMixin):
    """An agent that counts how often its system prompt is to be composed anew."""

    def __init__(self, **kwargs: Any) -> None:
        self.rebuilt = 0
        self.rebuilt_once_more = threading.Event()
        super().__init__(silent_mode=True, **kwargs)

    def rebuild_system_prompt(self) -> None:
        self.rebuilt += 1
        super().rebuild_system_prompt()
        self.rebuilt_once_more.set()


class EchoAgent:
    """An agent that is published in this process."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return [{"name": "echo", "description": "Say it again.", "inputSchema": schema}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return {"said": arguments["text"]}


def raw_server(mode: str = "", **env: str) -> dict[str, Any]:
    """The entry of the server in `tests/servers/raw_server.py`."""
    script = TESTS / "servers" / "raw_server.py"
    return {"command": sys.executable, "args": ["-S", str(script), mode], "env": env}


def sdk_server() -> dict[str, Any]:
    """The entry of the server in `tests/servers/stdio_upstream.py`."""
    return {"command": sys.executable, "args": [*forked("stdio_upstream.py")]}
