"""A custom transport as the specification shows it ("Extension Points")."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from gaia.mcp.client import MCPClient
from gaia.mcp.client.transports.base import MCPTransport
from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError, ToolError
from tests.support.gaia_clients import FakeTransport
from tests.support.upstreams import FakeRequest
from tests.support.waiting import PATIENCE

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


def relayed(transport: MCPTransport, name: str) -> dict[str, Any]:
    """The result of a tool call that is made on behalf of another request."""
    return anyio.run(transport.relay, "tools/call", {"name": name}, FakeRequest())


def test_a_request_on_behalf_of_another_is_one_of_its_own_where_the_transport_knows_no_better() -> None:
    transport = FakeTransport(quiet={"result": {"content": []}})
    assert relayed(transport, "quiet") == {"content": []}
    assert transport.requests == [("tools/call", {"name": "quiet"})]


@pytest.mark.parametrize(
    ("error", "code", "message", "data"),
    [
        (
            {"code": -31999, "message": "not today", "data": {"until": "monday"}},
            -31999,
            "not today",
            {"until": "monday"},
        ),
        ({"message": "no code"}, INTERNAL_ERROR, "no code", None),
    ],
)
def test_an_error_in_answer_to_it_stays_one(error: dict[str, Any], code: int, message: str, data: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        relayed(FakeTransport(odd={"error": error}), "odd")
    assert (caught.value.code, caught.value.message, caught.value.data) == (code, message, data)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (RuntimeError("far is not connected"), "^far is not connected$"),
        (TimeoutError("no answer within 5 s"), "^no answer within 5 s$"),
        ({"result": None}, "^the server answered tools/call with neither a result nor an error$"),
        ({"error": "no"}, "^the server answered tools/call with neither a result nor an error$"),
    ],
)
def test_no_answer_to_it_is_told_to_the_model(answer: Any, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        relayed(FakeTransport(odd=answer), "odd")


def test_it_does_not_hold_the_event_loop_up_and_is_not_waited_for_once_it_is_cancelled() -> None:
    began, answered = threading.Event(), threading.Event()

    class Slow(FakeTransport):
        def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
            began.set()
            assert answered.wait(PATIENCE)
            return super().send_request(method, params)

    async def cancelled() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Slow().relay, "tools/call", {"name": "slow"}, FakeRequest())
            while not began.is_set():  # noqa: ASYNC110 - set by a thread
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(cancelled)
    finally:
        answered.set()
