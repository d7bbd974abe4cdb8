"""The client's reason for cancelling reaches an agent, and a server of either era, over every way in."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.errors import RequestCancelledError
from gaia_bridge.model import NamingPolicy, ServerOptions, StdioServerSpec
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Script, ScriptedTransport, Wire, legacy, modern
from tests.probes.reaching import MODERN, hello, meta, serving_http, stream
from tests.support.agents import ScriptedAgent
from tests.support.upstreams import until_ready
from tests.support.waiting import PATIENCE, until, wait_in_thread

pytestmark = pytest.mark.anyio

REASON = "The user pressed Escape — “enough”"
CANCELLED = "notifications/cancelled"
ERAS = {"old": legacy, "new": modern}
ONE_ERA = {"old": ServerOptions(era="handshake"), "new": ServerOptions(era="2026-07-28")}


class WaitingAgent(ScriptedAgent):
    """Works until it is cancelled, and remembers why it was."""

    def __init__(self) -> None:
        self.started, self.ended = threading.Event(), threading.Event()
        self.reason = ""
        super().__init__(self._work, "agent-wait")

    def _work(self, name: str, arguments: Mapping[str, Any]) -> JSON:
        request = get_request_context()
        self.started.set()
        request.wait_cancelled(PATIENCE)
        try:
            request.raise_if_cancelled()
        except RequestCancelledError as error:
            self.reason = error.reason
        self.ended.set()
        return {}


def waiting(name: str) -> Script:
    """A server whose tool answers nothing."""

    async def run(wire: Wire) -> None:
        while True:
            request = await wire.next()
            if request.get("method") == "tools/list":
                tools = [{"name": f"{name}-wait", "inputSchema": {"type": "object"}}]
                wire.answer(request, {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})

    return run


def received(transport: ScriptedTransport, method: str) -> list[JSON]:
    """What a server was sent of one method."""
    return [message for wire in transport.wires for message in wire.received if message.get("method") == method]


async def until_received(transport: ScriptedTransport, method: str) -> None:
    """Wait until a server was sent a message of one method."""
    await until(lambda: bool(received(transport, method)))


@pytest.mark.requirement("F-245")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_reason_for_cancelling_reaches_the_agent_or_the_server_as_it_was_given(way: str) -> None:
    agent = WaitingAgent()
    servers = {name: ScriptedTransport(era(waiting(name), {"tools": {}})) for name, era in ERAS.items()}
    with anyio.fail_after(PATIENCE * 2):
        async with Bridge(names=NamingPolicy.BARE) as bridge, anyio.create_task_group() as tasks:
            await bridge.add_agent(agent, "agent")
            for name, transport in servers.items():
                await bridge.add_upstream(StdioServerSpec(name, "scripted", options=ONE_ERA[name]), transport)
            await until_ready(*bridge.sources)
            async with saying(way, bridge, tasks) as say:
                for number, name in enumerate(("agent", *servers)):
                    call: JSON = {"name": f"{name}-wait", "arguments": {}}
                    await say({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call})
                    if name == "agent":
                        await wait_in_thread(agent.started.wait)
                    else:
                        await until_received(servers[name], "tools/call")
                    params = {"requestId": number, "reason": REASON}
                    await say({"jsonrpc": "2.0", "method": CANCELLED, "params": params})
                    if name == "agent":
                        await wait_in_thread(agent.ended.wait)
                    else:
                        await until_received(servers[name], CANCELLED)
            tasks.cancel_scope.cancel()
    assert agent.reason == REASON
    for transport in servers.values():
        assert [message["params"]["reason"] for message in received(transport, CANCELLED)] == [REASON]


@asynccontextmanager
async def saying(way: str, bridge: Bridge, tasks: TaskGroup) -> AsyncGenerator[Callable[[JSON], Awaitable[object]]]:
    """What sends messages of one client, and does not wait for answers."""
    handshake, told = hello("2025-11-25"), {"jsonrpc": "2.0", "method": "notifications/initialized"}
    if way == "stdio":
        lines = await stream(bridge, tasks)
        await lines.write(handshake)
        await lines.next()
        await lines.write(told)
        yield lines.write
        await lines.close()
        return
    async with serving_http(bridge, tasks) as http, anyio.create_task_group() as requests:
        headers = {"accept": "application/json, text/event-stream"}
        headers["mcp-session-id"] = (await http.post("/mcp", json=handshake, headers=headers)).headers["mcp-session-id"]

        async def say(message: JSON) -> None:
            requests.start_soon(lambda: http.post("/mcp", json=message, headers=headers))

        await say(told)
        yield say
        requests.cancel_scope.cancel()


@pytest.mark.requirement("F-316")
async def test_a_cancellation_says_nothing_of_the_request_of_another_client_that_has_the_same_id() -> None:
    agents = {name: WaitingAgent() for name in ("mine", "theirs")}
    for name, agent in agents.items():
        agent.tools = [{"name": name, "inputSchema": {"type": "object"}}]
    cancelled = {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": 7, "reason": REASON}}
    with anyio.fail_after(PATIENCE * 2):
        async with Bridge() as bridge, anyio.create_task_group() as tasks:
            for name, agent in agents.items():
                await bridge.add_agent(agent, name)
            async with serving_http(bridge, tasks) as http, anyio.create_task_group() as requests:
                call: JSON = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
                headers = {"accept": "application/json, text/event-stream"}
                new = {**headers, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "theirs"}
                theirs = {**call, "params": {"name": "theirs", "arguments": {}, "_meta": meta()}}
                their_request = anyio.CancelScope()
                requests.start_soon(within, their_request, lambda: http.post("/mcp", json=theirs, headers=new))
                await wait_in_thread(agents["theirs"].started.wait)
                await http.post("/mcp", json=cancelled, headers=headers)  # of nobody's session

                greeted = await http.post("/mcp", json=hello("2025-11-25"), headers=headers)
                mine = {**headers, "mcp-session-id": greeted.headers["mcp-session-id"]}
                await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=mine)
                params: JSON = {"name": "mine", "arguments": {}}
                requests.start_soon(lambda: http.post("/mcp", json={**call, "params": params}, headers=mine))
                await wait_in_thread(agents["mine"].started.wait)
                await http.post("/mcp", json=cancelled, headers=mine)
                await wait_in_thread(agents["mine"].ended.wait)

                assert not agents["theirs"].ended.is_set()
                their_request.cancel()
                await wait_in_thread(agents["theirs"].ended.wait)
                requests.cancel_scope.cancel()
            tasks.cancel_scope.cancel()
    assert agents["mine"].reason == REASON
    assert agents["theirs"].reason == "the client cancelled the request"


async def within(scope: anyio.CancelScope, post: Callable[[], Awaitable[object]]) -> None:
    """A request whose client can hang up."""
    with scope:
        await post()
