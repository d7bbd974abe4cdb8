"""An opening look around does not decide which revision a stream speaks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from gaia_bridge.inbound.dual_era import DiscoverTolerantStream
from gaia_bridge.jsontypes import JSON
from tests.helpers import PATIENCE, one_tool, running_bridge

MODERN_META = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: dict[str, Any]()}
HANDSHAKE: JSON = {
    "protocolVersion": LATEST_HANDSHAKE_VERSION,
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}


class RawClient:
    """Speaks JSON-RPC over a pair of streams."""

    def __init__(
        self,
        send: MemoryObjectSendStream[SessionMessage | Exception],
        receive: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        self.incoming = send
        self._receive = receive
        self._ids: Iterator[int] = count(1)

    async def ask(self, method: str, **params: Any) -> JSON:
        """Send a request and return its result, or its error under `error`."""
        number = next(self._ids)
        request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params or None)
        await self.incoming.send(SessionMessage(request))
        while True:
            message = (await self._receive.receive()).message
            if isinstance(message, JSONRPCResponse) and message.id == number:
                return message.result
            if isinstance(message, JSONRPCError) and message.id == number:
                return {"error": message.error.model_dump(exclude_none=True)}

    async def discover(self, version: str = LATEST_MODERN_VERSION) -> JSON:
        return await self.ask("server/discover", _meta={**MODERN_META, PROTOCOL_VERSION_META_KEY: version})

    async def tell(self, method: str) -> None:
        await self.incoming.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method)))


@asynccontextmanager
async def connected(*, tolerant: bool = True) -> AsyncGenerator[RawClient]:
    """A raw client of an agent, over the shim or without it."""
    async with running_bridge(one_tool(lambda _: {"worked": True})) as running:
        server = running.server()
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](10)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](10)
        with to_server, incoming, outgoing, from_server, anyio.fail_after(PATIENCE):
            stream = DiscoverTolerantStream(server, incoming, outgoing) if tolerant else incoming

            async def serve() -> None:
                await serve_dual_era_loop(server, stream, outgoing, lifespan_state={})

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve)
                yield RawClient(to_server, from_server)
                tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.requirement("P-2", "P-12")
async def test_a_client_that_only_looked_may_still_shake_hands() -> None:
    async with connected() as client:
        for _ in range(3):
            assert (await client.discover())["supportedVersions"] == [LATEST_MODERN_VERSION]
        assert (await client.ask("initialize", **HANDSHAKE))["protocolVersion"] == LATEST_HANDSHAKE_VERSION
        await client.tell("notifications/initialized")
        result = await client.ask("tools/call", name="work")
        assert result["structuredContent"] == {"worked": True}


@pytest.mark.anyio
async def test_a_client_that_looked_and_goes_on_without_a_handshake_is_served() -> None:
    async with connected() as client:
        await client.discover()
        result = await client.ask("tools/call", name="work", _meta=MODERN_META)
        assert result["structuredContent"] == {"worked": True}
        assert (await client.discover())["supportedVersions"] == [LATEST_MODERN_VERSION]


@pytest.mark.anyio
async def test_a_look_around_shows_what_the_sdk_itself_would_show() -> None:
    async with connected() as client:
        ours = await client.discover()
    async with connected(tolerant=False) as client:
        theirs = await client.discover()
    assert ours == theirs
    assert ours["_meta"][SERVER_INFO_META_KEY]["name"] == "GAIA ScriptedAgent"
    assert ours["capabilities"]["tools"] == {"listChanged": True}


@pytest.mark.anyio
async def test_once_another_request_came_the_sdk_decides() -> None:
    async with connected() as client:
        await client.ask("initialize", **HANDSHAKE)
        assert "error" in await client.discover()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "meta", [None, 5, {}, {PROTOCOL_VERSION_META_KEY: "1999-01-01"}, {PROTOCOL_VERSION_META_KEY: ["x"]}]
)
async def test_a_malformed_look_around_is_answered_by_the_sdk_as_without_the_shim(meta: Any) -> None:
    async with connected() as client:
        ours = await client.ask("server/discover", _meta=meta)
    async with connected(tolerant=False) as client:
        theirs = await client.ask("server/discover", _meta=meta)
    assert "error" in ours
    assert ours == theirs


@pytest.mark.anyio
@pytest.mark.requirement("F-243")
@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
async def test_what_is_refused_for_its_revision_decides_nothing(method: str) -> None:
    unknown = {**MODERN_META, PROTOCOL_VERSION_META_KEY: "2099-01-01"}
    async with connected() as client:
        refusal = (await client.ask(method, _meta=unknown))["error"]
        assert (refusal["code"], refusal["data"]["supported"]) == (-32022, [LATEST_MODERN_VERSION])
        assert (await client.ask("initialize", **HANDSHAKE))["protocolVersion"] == LATEST_HANDSHAKE_VERSION
    async with connected() as client:
        await client.ask(method, _meta=unknown)
        assert "tools" in await client.ask("tools/list", _meta=MODERN_META)


@pytest.mark.anyio
@pytest.mark.parametrize("meta", [None, 5, {}, {PROTOCOL_VERSION_META_KEY: ["x"]}])
async def test_a_malformed_look_around_decides_nothing(meta: Any) -> None:
    async with connected() as client:
        assert "error" in await client.ask("server/discover", _meta=meta)
        assert "error" not in await client.ask("initialize", **HANDSHAKE)


@pytest.mark.anyio
async def test_notifications_and_unreadable_messages_pass_and_decide_nothing() -> None:
    async with connected() as client:
        await client.tell("notifications/roots/list_changed")
        await client.incoming.send(ValueError("no JSON"))
        await client.discover()
        assert "error" not in await client.ask("initialize", **HANDSHAKE)


@pytest.mark.anyio
async def test_a_stream_that_ends_ends_the_iteration_and_closes_what_is_underneath() -> None:
    async with running_bridge(one_tool(lambda _: None)) as running:
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](1)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](1)
        with outgoing, from_server:
            error = ValueError("no JSON")
            to_server.send_nowait(error)
            to_server.close()
            async with DiscoverTolerantStream(running.server(), incoming, outgoing) as stream:
                assert [item async for item in stream] == [error]
            with suppress(anyio.ClosedResourceError), pytest.raises(anyio.ClosedResourceError):
                await incoming.receive()


@pytest.mark.anyio
async def test_the_context_of_the_sender_is_passed_on() -> None:
    class Knowing:
        last_context = "the sender's"

        async def receive(self) -> SessionMessage | Exception:
            raise anyio.EndOfStream

        async def aclose(self) -> None:
            self.last_context = "closed"

    async with running_bridge(one_tool(lambda _: None)) as running:
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](1)
        with outgoing, from_server:
            knowing = Knowing()
            stream = DiscoverTolerantStream(running.server(), knowing, outgoing)
            assert stream.last_context == "the sender's"
            await stream.aclose()
            assert knowing.last_context == "closed"
