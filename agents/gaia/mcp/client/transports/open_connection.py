"""The state of a transport while it is connected."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.contract import ClientRequest
from gaia_bridge.runtime.lent_loop import Lease
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia.mcp.client.transports.detached_connection import DetachedConnection
    from gaia_bridge.sources.upstream.shared_servers import Lender

__all__ = ["AskedMeanwhile", "BorrowedServer", "Close", "OpenConnection"]

Close = Callable[[], Coroutine[Any, Any, None]]
"""Closes a connection, on its event loop."""


class OpenConnection(Struct, eq=False, weakref=True):
    """An open connection, and the requests that use it right now.

    Args:
        lease: Of the event loop that it lives on.
        session: The connection.
        close: Closes it.
        lender: The server of a bridge of this process that it leads to, if it does.
        relaying: The connection for requests whose clients can be asked, where that is another.
        stop_seeking: Ends the search for a server of a bridge.
    """

    lease: Lease
    session: DetachedConnection
    close: Close
    lender: Lender | None = None
    relaying: DetachedConnection | None = None
    stop_seeking: Callable[[], None] | None = None
    finalizer: weakref.finalize[Any, Any] | None = None
    calls: int = 0
    """Requests in flight."""
    is_used: bool = False
    """Whether the server was asked for more than what it offers: it may hold something for us since."""

    @property
    def is_open(self) -> bool:
        """Whether it can be used. Known in any thread."""
        is_there = self.lease.is_alive and self.session.link is not None
        return is_there and (self.lender is None or self.lender.works)

    def mark_used(self) -> None:
        """Note that the server was asked for more than its lists: it is not exchanged any more."""
        if not self.is_used:
            self.is_used = True
            if self.stop_seeking is not None:
                self.stop_seeking()

    def attach_to(self, owner: object) -> None:
        """Close it when its owner is forgotten."""
        self.finalizer = weakref.finalize(owner, _end, self.lease, self.close, self.stop_seeking)
        self.finalizer.atexit = False  # the event loop closes everything by itself then

    def detach(self) -> None:
        """Leave its end to whoever calls this."""
        if self.finalizer is not None:
            self.finalizer.detach()
        if self.stop_seeking is not None:
            self.stop_seeking()

    def close_later(self) -> None:
        """Close it without waiting for that."""
        self.detach()
        self.lease.finish(self.close)


class BorrowedServer(Struct, eq=False):
    """The two connections to a server of a bridge. Implements `shared_servers.Borrows`.

    Only one of them says that somebody can be asked: clients of the bridge need not take turns with calls that nobody
    is behind.

    Args:
        session: For requests that nobody is behind.
        relaying: For requests whose clients can be asked. It opens when it is used.
    """

    session: DetachedConnection
    relaying: DetachedConnection

    async def open(self) -> None:
        """Open the first."""
        await self.session.open()

    async def close(self) -> None:
        """Close both."""
        try:
            await self.relaying.close()
        finally:
            await self.session.close()


class AskedMeanwhile(OwnRequest):
    """A call of an agent's own to a server, during a call of a client to the agent: that one can be asked.

    Args:
        request: The request of the client.
    """

    def __init__(self, request: ClientRequest) -> None:
        super().__init__(request.client)
        self._request = request
        self.client_info = request.client_info
        self.client_capabilities = request.client_capabilities

    @classmethod
    def current(cls) -> AskedMeanwhile | None:
        """For the request that is being worked on here, if there is one."""
        try:
            return cls(get_request_context().as_request())
        except LookupError:
            return None

    async def push(self, method: str, params: JSON) -> JSON:
        """Ask the client."""
        return await self._request.push(method, params)


def _end(lease: Lease, close: Close, stop_seeking: Callable[[], None] | None) -> None:
    if stop_seeking is not None:
        stop_seeking()
    lease.finish(close)
