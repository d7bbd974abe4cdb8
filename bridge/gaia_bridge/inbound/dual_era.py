"""Keeps an opening look around, and what is refused for its revision, from deciding the era of a stream.

The SDK fixes the era of a stdio or SSE connection with its first request. Some clients send `server/discover` only to
look, lose patience while Python starts, and go on with `initialize` on the same stream, which would then be refused.
Others ask in a revision that is not served, and fall back. Here both are answered and forgotten until another request
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    DiscoverResult,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ServerCapabilities,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gaia_bridge.contract import JSON
from gaia_bridge.errors import ProtocolError
from gaia_bridge.inbound.backlog import Outlet
from gaia_bridge.inbound.cancellations import Cancellations
from gaia_bridge.inbound.introducing import capabilities_of
from gaia_bridge.inbound.server import EndpointServer
from gaia_bridge.jsontypes import is_object

__all__ = ["CountedStream", "DiscoverTolerantStream", "Incoming", "Outgoing"]

Message = SessionMessage | Exception


class Incoming(Protocol):
    """A stream of a client's messages; what the SDK calls a read stream."""

    async def receive(self) -> Message:
        """The next message."""
        ...

    async def aclose(self) -> None:
        """Close this end."""
        ...


class Outgoing(Protocol):
    """A stream of messages to a client; what the SDK calls a write stream."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        ...


class DiscoverTolerantStream:
    """A read stream that answers by itself what decides nothing, until a request came that does.

    Args:
        server: Whose capabilities to tell.
        incoming: The client's messages.
        outgoing: Where the answer goes.
        check: Raises `ProtocolError` for the `_meta` of a request that is refused.
        cancellations: Told of each notification, before anybody else.
        outlet: Where the answers to what is asked here leave.
    """

    def __init__(
        self,
        server: EndpointServer,
        incoming: Incoming,
        outgoing: Outgoing,
        check: Callable[[Mapping[str, Any]], None] | None = None,
        cancellations: Cancellations | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        self._outlet = outlet
        self._check = check
        self._cancellations = cancellations
        self._server = server
        self._incoming = incoming
        self._outgoing = outgoing
        self._undecided = True

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, where the stream knows it."""
        context = getattr(self._incoming, "last_context", None)
        if context is not None and self._outlet is not None:
            self._outlet.enter(context)
        return context

    async def receive(self) -> Message:
        """The next message that is not a look around."""
        while True:
            item = await self._incoming.receive()
            self._heard(item)
            if not self._undecided or isinstance(item, Exception) or not isinstance(item.message, JSONRPCRequest):
                return item
            if item.message.method == "server/discover":
                await self._server.catalog.settle()
            if (answer := self._passing(item.message)) is None:
                self._undecided = False
                return item
            await self._outgoing.send(SessionMessage(answer))

    async def aclose(self) -> None:
        """Close the stream underneath."""
        await self._incoming.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None

    def _heard(self, item: Message) -> None:
        if self._cancellations is None or isinstance(item, Exception):
            return
        if isinstance(item.message, JSONRPCNotification):
            request = getattr(item.metadata, "request_context", None)
            self._cancellations.heard(item.message.method, item.message.params, request)
            if self._outlet is not None and item.message.method == "notifications/cancelled":
                self._outlet.left((item.message.params or {}).get("requestId"))  # it is not answered any more

    def _passing(self, request: JSONRPCRequest) -> JSONRPCResponse | JSONRPCError | None:
        """The answer to a request that decides nothing; `None` if it does."""
        looking = request.method == "server/discover"
        if not _names_revision(request):
            # Without a revision, it is one of those that have no such method.
            return _refusal(request, METHOD_NOT_FOUND, "Method not found", request.method) if looking else None
        route = classify_inbound_request({"method": request.method, "params": request.params})
        if isinstance(route, InboundLadderRejection):
            if looking or route.code == UNSUPPORTED_PROTOCOL_VERSION:
                return _refusal(request, route.code, route.message, route.data)
            return None
        return self._answer(request) if looking else None

    def _answer(self, request: JSONRPCRequest) -> JSONRPCResponse | JSONRPCError:
        if self._check is not None:
            try:
                self._check((request.params or {})["_meta"])
            except ProtocolError as error:
                return _refusal(request, error.code, error.message, error.data)
        return JSONRPCResponse(jsonrpc="2.0", id=request.id, result=self._discovered())

    def _discovered(self) -> JSON:
        result = DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            instructions=self._server.instructions,
            capabilities=ServerCapabilities(),
            _meta={SERVER_INFO_META_KEY: self._server.server_info_stamp},
        )
        told = capabilities_of(self._server.catalog, modern=True)  # the SDK's models drop what they do not know
        return {**result.model_dump(by_alias=True, mode="json", exclude_none=True), "capabilities": told}


class CountedStream:
    """A write stream that tells which answers have left.

    Args:
        outgoing: Where they go.
        outlet: Is told.
    """

    def __init__(self, outgoing: WriteStream[SessionMessage], outlet: Outlet) -> None:
        self._outgoing = outgoing
        self._outlet = outlet

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message; returns when it was taken."""
        try:
            await self._outgoing.send(item)
        finally:
            if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                self._outlet.left(item.message.id)

    async def aclose(self) -> None:
        """Close the stream underneath."""
        await self._outgoing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


def _names_revision(request: JSONRPCRequest) -> bool:
    meta = (request.params or {}).get("_meta")
    return is_object(meta) and PROTOCOL_VERSION_META_KEY in meta


def _refusal(request: JSONRPCRequest, code: int, message: str, data: Any) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request.id, error=ErrorData(code=code, message=message, data=data))
