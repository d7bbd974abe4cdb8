"""Servers of before 2026-07-28, made of a bridge."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCRequest

from gaia_bridge.bridge import Bridge
from gaia_bridge.inbound.dual_era import DiscoverTolerantStream

__all__ = ["forget_discovery"]

_UNKNOWN = "Method not found"
_forgetful = WeakSet[Any]()
_receive = DiscoverTolerantStream.receive


def forget_discovery(bridge: Bridge) -> None:
    """Make a bridge one of before 2026-07-28, which nothing but the handshake introduces."""

    async def refuse(ctx: Any, call_next: CallNext) -> HandlerResult:
        if ctx.method == "server/discover":
            raise MCPError(METHOD_NOT_FOUND, _UNKNOWN)
        return await call_next(ctx)

    for endpoint in bridge._endpoints.values():  # pyright: ignore[reportPrivateUsage]
        endpoint.endpoint.server.middleware.insert(0, refuse)
        _forgetful.add(endpoint.endpoint.server)


async def _receive_or_refuse(self: Any) -> SessionMessage | Exception:
    """On stdio and SSE the bridge answers `server/discover` before its server sees it; here it is refused there."""
    if self._server not in _forgetful:
        return await _receive(self)
    while True:
        item: SessionMessage | Exception = await self._incoming.receive()
        if isinstance(item, Exception) or not isinstance(item.message, JSONRPCRequest):
            return item
        if item.message.method != "server/discover":
            return item
        error = ErrorData(code=METHOD_NOT_FOUND, message=_UNKNOWN)
        await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error)))


DiscoverTolerantStream.receive = _receive_or_refuse  # type: ignore[method-assign] # for servers that forget, only
