"""What goes wrong with one source, or with one request to it, on an endpoint of two and of three sources."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio
import pytest
from starlette.types import ASGIApp

from gaia_bridge.bridge import Bridge
from gaia_bridge.client.transport import Transport
from gaia_bridge.model import HttpServerSpec, NamingPolicy, ServerOptions, ServerSpec, SourceState, StdioServerSpec
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.settings import HttpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import ScriptedTransport, Wire, initialized
from tests.bridge.server.transports.test_handshake_http import Client, Request, call, client_of, events_of
from tests.support.agents import ScriptedAgent
from tests.support.bridges import RunningBridge
from tests.support.clients_of_revisions import RevisionClient, client_of_revision, envelope
from tests.support.upstreams import until_ready
from tests.support.waiting import PATIENCE, until, wait_in_thread

pytestmark = pytest.mark.anyio

several = pytest.mark.parametrize("sources", [2, 3])
both_ends = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
SPEC: Final = StdioServerSpec("server", "none", options=ServerOptions(lazy=False))
MODERN: Final = "2026-07-28"
TOOLS: Final = ("quick", "slow")


class Agent(ScriptedAgent):
    """Has a tool that answers at once, and one that answers when it is let."""

    def __init__(self) -> None:
        super().__init__(self._execute, *TOOLS)
        self.begun, self.let = threading.Event(), threading.Event()

    def _execute(self, name: str, arguments: JSON) -> str:
        if name == "slow":
            self.begun.set()
            assert self.let.wait(PATIENCE)
        return name


class Server:
    """Has the same tools; the slow one answers never."""

    def __init__(self) -> None:
        self.begun, self.given_up = anyio.Event(), anyio.Event()

    async def __call__(self, wire: Wire) -> None:
        await initialized(wire, {"tools": {}})
        while True:
            message = await wire.next()
            match message["method"]:
                case "tools/list":
                    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
                    wire.answer(message, {"tools": tools})
                case "tools/call" if message["params"]["name"] == "slow":
                    self.begun.set()
                case "tools/call":
                    wire.answer(message, {"content": [{"type": "text", "text": "quick"}]})
                case "notifications/cancelled":
                    self.given_up.set()
                case _:
                    wire.answer(message, {})


class Endpoint:
    """An endpoint of an agent, a server, and perhaps a further agent, whose tools all have the same names."""

    def __init__(self, bridge: Bridge, agent: Agent, server: Server, names: tuple[str, ...]) -> None:
        self.bridge, self.agent, self.server = bridge, agent, server
        self.names = names
        """Of the sources that work."""

    def client(self, revision: str) -> Any:
        return client_of_revision(RunningBridge(self.bridge).endpoint(), revision)

    def asgi(self) -> ASGIApp:
        return self.bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765))

    async def all_answer(self, client: RevisionClient) -> None:
        """Every source that works is listed, and answers."""
        listed = {tool["name"] for tool in (await client.result("tools/list"))["tools"]}
        assert listed >= {f"{source}__{name}" for source in self.names for name in TOOLS}
        for source in self.names:
            result = await client.result("tools/call", {"name": f"{source}__quick", "arguments": {}})
            assert (result["content"], result.get("isError", False)) == ([{"type": "text", "text": "quick"}], False)


@asynccontextmanager
async def serving(sources: int) -> AsyncGenerator[Endpoint]:
    agent, server = Agent(), Server()
    names = ("agent", "server", "other")[:sources]
    settings = Settings(http=HttpLimits(quick_answer=0.001))
    with anyio.fail_after(2 * PATIENCE):
        async with Bridge(settings=settings, names=NamingPolicy.DOUBLE) as bridge:
            await bridge.add_agent(agent, "agent")
            await bridge.add_upstream(SPEC, ScriptedTransport(*[server] * 4))
            if "other" in names:
                await bridge.add_agent(Agent(), "other")
            await until_ready(*bridge.sources)
            try:
                yield Endpoint(bridge, agent, server, names)
            finally:
                agent.let.set()


@several
@both_ends
async def test_an_id_in_flight_is_refused_whichever_source_it_is_used_for_again(sources: int, revision: str) -> None:
    async with serving(sources) as endpoint, endpoint.client(revision) as client:
        await client.introduce()
        await client.begin("tools/call", {"name": "agent__slow", "arguments": {}}, "same")
        await wait_in_thread(lambda seconds: endpoint.agent.begun.wait(seconds))
        for count, name in enumerate(endpoint.names, start=1):
            await client.begin("tools/call", {"name": f"{name}__quick", "arguments": {}}, "same")
            assert (await client.until_answered("same", count))["error"]["code"] == -32600
        await endpoint.all_answer(client)
        endpoint.agent.let.set()
        answer = await client.until_answered("same", sources + 1)
        assert answer["result"]["content"] == [{"type": "text", "text": "slow"}]


@several
async def test_a_stream_that_is_resumed_has_the_answer_of_the_source_that_was_called(sources: int) -> None:
    async with serving(sources) as endpoint, client_of(app := endpoint.asgi()) as http:
        client = Client(http)
        await client.open()
        called = {7: "agent__slow", 8: "server__slow"}
        streams = [Request(app, client.session, call(name, number)) for number, name in called.items()]
        async with anyio.create_task_group() as tasks:
            for stream in streams:
                tasks.start_soon(stream)
                await stream.until("retry: ")
                stream.leave.set()
        endpoint.agent.let.set()
        [primer] = events_of(streams[0].text)
        [answer] = await client.resume(primer["id"])
        assert '"text":"slow"' in answer["data"]


@several
@pytest.mark.parametrize("path", ["/", "/mcp"], ids=["a single call", "2026-07-28"])
async def test_who_leaves_a_request_over_http_gives_up_the_call_of_one_source(sources: int, path: str) -> None:
    named = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "server__slow"}
    message = call("server__slow", 1)
    message["params"]["_meta"] = envelope(MODERN)
    async with serving(sources) as endpoint, endpoint.client("2025-11-25") as client:
        await client.introduce()
        begun = await client.begin("tools/call", {"name": "agent__slow", "arguments": {}})
        headers, said = ({}, call("server__slow", 1)) if path == "/" else (named, message)
        left = Request(endpoint.asgi(), headers, said, path=path)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left)
            await endpoint.server.begun.wait()
            left.leave.set()
            await endpoint.server.given_up.wait()
        await endpoint.all_answer(client)
        endpoint.agent.let.set()
        assert (await client.until_answered(begun))["result"]["content"] == [{"type": "text", "text": "slow"}]


async def refuses(wire: Wire) -> None:
    """A server with which no handshake comes off."""
    while True:
        wire.refuse(await wire.next(), -32000, "not today")


@asynccontextmanager
async def dropping() -> AsyncGenerator[str]:
    """The URL of a server that drops every connection as soon as it has taken it."""

    class Dropping(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            cast("asyncio.Transport", transport).abort()

    server = await asyncio.get_running_loop().create_server(Dropping, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


@asynccontextmanager
async def failing(how: str) -> AsyncGenerator[tuple[ServerSpec, Transport | None]]:
    """A server that cannot be connected to."""
    options = ServerOptions(lazy=False)
    if how == "a handshake that is refused":
        yield StdioServerSpec("broken", "none", options=options), ScriptedTransport(*[refuses] * 1_000)
        return
    async with dropping() as url:
        yield HttpServerSpec("broken", url, options=options), None


@several
@both_ends
@pytest.mark.parametrize("how", ["a handshake that is refused", "a connection that is dropped"])
async def test_a_server_that_cannot_be_connected_to_costs_those_beside_it_nothing(
    sources: int, revision: str, how: str
) -> None:
    async with failing(how) as (spec, transport), serving(sources) as endpoint:
        await endpoint.bridge.add_upstream(spec, transport)
        [broken] = [source for source in endpoint.bridge.sources if source.name == "broken"]
        async with endpoint.client(revision) as client:
            await client.introduce()
            for _ in range(3):
                await endpoint.all_answer(client)
            await until(lambda: broken.status.state in (SourceState.BACKOFF, SourceState.FAILED))
            await endpoint.all_answer(client)
            refused = await client.response("tools/call", {"name": "broken__quick", "arguments": {}})
            assert "broken" in str(refused)
            assert "Traceback" not in str(client.messages)
