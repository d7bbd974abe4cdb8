"""Our own transports: synchronous, from any thread, and nothing of them is left when they are done with."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gaia.mcp.client import AgentTransport, MCPClient
from gaia.mcp.client.transports.connection import ConnectionTransport
from gaia_bridge.settings import UpstreamLimits
from tests.bridge.client.scripted import Script, ScriptedTransport, Wire, legacy, serving
from tests.support.gaia_clients import EchoAgent
from tests.support.processes import background_threads
from tests.support.waiting import PATIENCE, after_collection, eventually


class TalkingAgent(EchoAgent):
    """An agent that announces changes, and has a tool that blocks until it is released."""

    def __init__(self) -> None:
        self.names = ["echo", "block"]
        self.publisher: Any = None
        self.blocked, self.release = threading.Event(), threading.Event()

    def on_mcp_published(self, publisher: Any) -> None:
        self.publisher = publisher

    def on_mcp_unpublished(self, publisher: Any) -> None:
        self.publisher = None

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        if tool_name == "block":
            self.blocked.set()
            assert self.release.wait(PATIENCE)
        return arguments


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test ends with all connections closed, and the loop with them."""
    assert background_threads() == []
    yield
    eventually(after_collection(lambda: not background_threads()))


@pytest.fixture
def client() -> Iterator[MCPClient]:
    with MCPClient.from_agent("echo", EchoAgent()) as connected:
        yield connected


def test_an_agent_of_this_process_is_a_server(client: MCPClient) -> None:
    assert isinstance(client.transport, AgentTransport)
    assert client.server_info == {"name": "GAIA EchoAgent", "version": "2.0.0"}
    [tool] = client.list_tools()
    assert (tool.name, tool.description, tool.input_schema["required"]) == ("echo", "Say it again.", ["text"])
    assert client.call_tool("echo", {"text": "ü"})["structuredContent"] == {"said": "ü"}
    assert client.call_tool("nothing", {}) == {"error": "Unknown tool: nothing"}


def test_the_loop_is_there_while_something_is_connected_and_gone_afterwards() -> None:
    first, second = MCPClient.from_agent("one", EchoAgent()), MCPClient.from_agent("two", EchoAgent())
    assert first.connect()
    assert second.connect()
    assert len(background_threads()) == 1
    first.disconnect()
    assert second.call_tool("echo", {"text": "hi"})["structuredContent"] == {"said": "hi"}
    second.disconnect()
    assert background_threads() == []


@pytest.mark.requirement("S0-52")
def test_connecting_twice_is_one_connection_and_disconnecting_twice_is_harmless() -> None:
    transport = AgentTransport("echo", EchoAgent())
    transport.disconnect()
    assert transport.connect()
    opened = transport._open  # pyright: ignore[reportPrivateUsage]
    assert transport.connect()
    assert transport._open is opened  # pyright: ignore[reportPrivateUsage]
    transport.disconnect()
    transport.disconnect()
    assert not transport.is_connected()


@pytest.mark.requirement("S0-55")
def test_without_a_connection_a_request_is_an_error_and_a_notification_is_lost() -> None:
    transport = AgentTransport("echo", EchoAgent())
    transport.send_notification("notifications/roots/list_changed")
    with pytest.raises(RuntimeError, match="echo is not connected"):
        transport.send_request("ping")


def test_a_client_that_was_disconnected_can_connect_again(client: MCPClient) -> None:
    for _ in range(3):
        client.disconnect()
        assert not client.is_connected()
        assert client.connect()
        assert client.call_tool("echo", {"text": "again"})["structuredContent"] == {"said": "again"}


def test_many_threads_use_one_connection(client: MCPClient) -> None:
    def call(number: int) -> Any:
        return client.call_tool("echo", {"text": str(number)})["structuredContent"]["said"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(100))) == [str(number) for number in range(100)]


@pytest.mark.anyio
async def test_it_works_inside_a_running_loop() -> None:
    with MCPClient.from_agent("echo", EchoAgent()) as client:
        assert client.call_tool("echo", {"text": "hi"})["structuredContent"] == {"said": "hi"}


@pytest.mark.requirement("S0-5")
def test_a_call_that_takes_too_long_is_a_timeout_and_the_connection_goes_on() -> None:
    agent = TalkingAgent()
    client = MCPClient.from_agent("slow", agent, timeout=0.05)
    assert isinstance(client.transport, AgentTransport)
    client.transport.startup_timeout = PATIENCE
    with client:
        agent.names.append("block")
        client.transport.send_request("tools/list")
        with pytest.raises(TimeoutError, match=r"slow did not answer tools/call within 0\.05 s"):
            client.call_tool("block", {})
        agent.release.set()
        assert client.is_connected()


def test_disconnecting_ends_a_call_that_another_thread_waits_for() -> None:
    agent = TalkingAgent()
    client = MCPClient.from_agent("slow", agent)
    assert client.connect()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call_tool, "block", {})
        assert agent.blocked.wait(PATIENCE)
        client.disconnect()
        with pytest.raises(RuntimeError, match=r"slow|background loop"):
            call.result(PATIENCE)
    agent.release.set()


@pytest.mark.requirement("P-5")
def test_changes_that_a_server_announces_are_heard() -> None:
    agent = TalkingAgent()
    with MCPClient.from_agent("talking", agent) as client:
        assert [tool.name for tool in client.list_tools()] == ["echo", "block"]
        heard: list[list[str]] = []
        client.on_tools_changed(lambda: heard.append([tool.name for tool in client.list_tools()]))
        agent.names.append("new")
        agent.publisher.tools_changed()
        eventually(lambda: bool(heard))
        assert heard == [["echo", "block", "new"]]


def test_an_agent_that_is_no_agent_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the methods of an MCP agent"):
        MCPClient.from_agent("odd", object())


def test_a_connection_that_is_forgotten_is_closed() -> None:
    client = MCPClient.from_agent("echo", EchoAgent())
    assert client.connect()
    gone = weakref.ref(client)
    assert len(background_threads()) == 1
    del client
    eventually(after_collection(lambda: gone() is None))
    eventually(lambda: not background_threads())


class ScriptedConnection(ConnectionTransport):
    """A connection to servers that follow a script."""

    def __init__(self, *scripts: Script) -> None:
        super().__init__("old", PATIENCE, False)
        self.servers = ScriptedTransport(*scripts)

    def _make_transport(self, limits: UpstreamLimits) -> ScriptedTransport:
        return self.servers


async def refusing(wire: Wire) -> None:
    while True:
        wire.refuse(await wire.next())


def test_a_server_that_once_refused_to_be_greeted_again_is_still_greeted_before_anything_else() -> None:
    working = legacy(serving(tools={"content": []}))
    transport = ScriptedConnection(working, refusing, refusing, working)
    client = MCPClient("old", transport)
    assert client.connect()
    client.disconnect()
    assert not client.connect()  # on two links: the other era is tried as well
    assert transport.connect()
    try:
        assert transport.send_request("tools/call", {"name": "t"})["result"] == {"content": []}
        assert [message["method"] for message in transport.servers.wires[-1].received][0] == "initialize"
    finally:
        client.disconnect()


@pytest.mark.requirement("S0-12")
def test_debug_names_requests_and_not_their_parameters(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="gaia")
    with MCPClient.from_agent("echo", EchoAgent(), debug=True) as client:
        client.call_tool("echo", {"text": "secret"})
    assert "echo: request 2: tools/call" in caplog.text
    assert "secret" not in caplog.text


EXIT = """
from tests.support.gaia_clients import EchoAgent
from gaia.mcp import MCPClient

client = MCPClient.from_agent("echo", EchoAgent())
assert client.connect()
print(client.call_tool("echo", {"text": "hi"})["structuredContent"])
"""


def test_a_program_that_ends_without_disconnecting_ends_quietly() -> None:
    ended = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=30, check=False,
                           cwd=__file__.partition("/tests/")[0])  # fmt: skip
    assert (ended.stdout, ended.stderr, ended.returncode) == ("{'said': 'hi'}\n", "", 0)
