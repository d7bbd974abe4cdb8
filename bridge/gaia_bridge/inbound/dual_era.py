"""Keeps an opening `server/discover` from deciding the era of a stream.

The SDK fixes the era of a stdio or SSE connection with its first request. Some clients send `server/discover` only to
look, lose patience while Python starts, and go on with `initialize` on the same stream, which would then be refused.
Here `server/discover` is answered and forgotten until another request decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    DiscoverResult,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    ServerCapabilities,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gaia_bridge.contract import JSON
from gaia_bridge.errors import ProtocolError
from gaia_bridge.inbound.introducing import capabilities_of
from gaia_bridge.inbound.server import EndpointServer

__all__ = ["DiscoverTolerantStream", "Incoming", "Outgoing"]

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
    """A read stream that answers `server/discover` by itself until another request came.

    Args:
        server: Whose capabilities to tell.
        incoming: The client's messages.
        outgoing: Where the answer goes.
        check: Raises `ProtocolError` for the `_meta` of a request that is refused.
    """

    def __init__(
        self,
        server: EndpointServer,
        incoming: Incoming,
        outgoing: Outgoing,
        check: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._check = check
        self._server = server
        self._incoming = incoming
        self._outgoing = outgoing
        self._undecided = True

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, where the stream knows it."""
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> Message:
        """The next message that is not a look around."""
        while True:
            item = await self._incoming.receive()
            if not self._undecided or isinstance(item, Exception) or not isinstance(item.message, JSONRPCRequest):
                return item
            if not _is_discover(item.message):
                self._undecided = False
                return item
            await self._server.catalog.settle()
            await self._outgoing.send(SessionMessage(self._answer(item.message)))

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

    def _answer(self, request: JSONRPCRequest) -> JSONRPCResponse | JSONRPCError:
        if self._check is not None:
            try:
                self._check((request.params or {})["_meta"])
            except ProtocolError as error:
                refusal = ErrorData(code=error.code, message=error.message, data=error.data)
                return JSONRPCError(jsonrpc="2.0", id=request.id, error=refusal)
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


def _is_discover(request: JSONRPCRequest) -> bool:
    """Whether the request is a well-formed look around; the SDK answers malformed ones."""
    if request.method != "server/discover":
        return False
    meta = (request.params or {}).get("_meta")
    version = cast(Mapping[str, Any], meta).get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None
    return version in MODERN_PROTOCOL_VERSIONS
