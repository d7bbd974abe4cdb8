"""What crosses between the clients' requests and one upstream, besides arguments and results."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import anyio
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    LoggingMessageNotificationParams,
)

from gaia_bridge.contract import ClientRequest
from gaia_bridge.jsontypes import JSON
from gaia_bridge.outbound.connection import Connection
from gaia_bridge.text import printable

__all__ = ["Relays"]

logger = logging.getLogger(__name__)

_PROGRESS_TOKEN: Final = "progressToken"

_OUR_HOP: Final = frozenset(
    {
        _PROGRESS_TOKEN,
        CLIENT_CAPABILITIES_META_KEY,
        CLIENT_INFO_META_KEY,
        LOG_LEVEL_META_KEY,
        PROTOCOL_VERSION_META_KEY,
    }
)
"""Keys of a request's `_meta` that speak about the connection between the client and us, and end here."""

_OUR_LEVELS: Final[Mapping[str, int]] = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO}
"""How loud our own log is about an upstream's message; everything more severe is a warning."""


class Relays:
    """The requests of clients that one upstream works on.

    Args:
        upstream: Its name, for the log.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._in_flight: set[_Relay] = set()

    async def call(self, connection: Connection, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Forward one request, and on the way back what belongs to it. Cancelling it cancels the server's work.

        Returns:
            The result as it came, with the `resultType` that the modern revision demands.

        Raises:
            ProtocolError: The upstream answered with a JSON-RPC error.
            UpstreamError: It did not answer as it should.
        """
        meta = {key: value for key, value in request.meta.items() if key not in _OUR_HOP}
        relay = _Relay(request)
        self._in_flight.add(relay)
        try:
            result = await connection.call(
                method,
                params | {"_meta": meta} if meta else params,
                relay.progress if _PROGRESS_TOKEN in request.meta else None,
            )
            await relay.passed_on()
        finally:
            self._in_flight.discard(relay)
        return result | {"resultType": "complete"}

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        """Pass a log message on.

        It names no request: only where one alone is in flight is it clear whose client it is for.
        """
        if len(self._in_flight) == 1:
            [relay] = self._in_flight
            await relay.log(params.level, params.data, params.logger)
        else:
            level = _OUR_LEVELS.get(params.level, logging.WARNING)
            logger.log(level, "upstream %r: %s", self._upstream, printable(str(params.data)))


class _Relay:
    """What comes back for one request before its answer, passed on in the order in which it came."""

    def __init__(self, request: ClientRequest) -> None:
        self._request = request
        # The SDK runs each notification in a task of its own. The lock is fair, and it is free again only when
        # everything that arrived before the answer was passed on.
        self._order = anyio.Lock()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        async with self._order:
            await self._request.report_progress(progress, total, message)

    async def log(self, level: str, data: Any, name: str | None) -> None:
        async with self._order:
            await self._request.log(level, data, name)

    async def passed_on(self) -> None:
        async with self._order:
            pass
