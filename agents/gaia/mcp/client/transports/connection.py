"""The transports that come with the bridge: each the synchronous face of one connection on the background loop."""

from __future__ import annotations

import logging
import threading
import weakref
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from gaia.mcp.client.transports.base import MCPTransport
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import BridgeError, ToolError
from gaia_bridge.runtime.background_loop import BACKGROUND, Lease
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    from gaia_bridge.client import Era
    from gaia_bridge.client.transport import Transport
    from gaia_bridge.sources.upstream.detached_connection import DetachedConnection, Notified

__all__ = ["ConnectionTransport"]

logger = logging.getLogger(__name__)

_INITIALIZED = "notifications/initialized"


class _Open(Struct, frozen=True):
    """What an open connection holds."""

    lease: Lease
    session: DetachedConnection
    finalizer: weakref.finalize[[Lease, DetachedConnection], Any]


class ConnectionTransport(MCPTransport):
    """Base of our own transports. Thread-safe; every method blocks its thread only.

    `initialize` greets the server in whatever revision of MCP it speaks, also where that has no such request. What the
    first request is decides: when it is another one, all are sent as they are. Once the server was greeted, it is so
    over every later connection, before what else it is asked for: of many threads, only one sees a connection end. The
    first request may then take as long as connecting does, besides its own `timeout`.

    Args:
        name: What the server is called in logs and error texts.
        timeout: Seconds for the connection, and for each request.
        debug: Whether requests are logged at level DEBUG; without their parameters, which may be secrets.
    """

    def __init__(self, name: str, timeout: float, debug: bool) -> None:
        self.name = name
        self.timeout = timeout
        self.debug = debug
        self.startup_timeout: float | None = None
        """Seconds for the connection, where that is another time."""
        self.own_id = ""
        """The id that requests say they have passed; with one, the server may ask, and `relay` works."""
        self._request_id = 0
        self._numbering = threading.Lock()
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._era: Era | None = None
        self._introduction: dict[str, Any] | None = None

    @abstractmethod
    def _make_transport(self, limits: UpstreamLimits) -> Transport:
        """The core's transport. Its modules are imported here, on first use, because they cost half a second.

        Raises:
            BridgeError: What we were given does not say how to reach the server.
        """

    def _words_of(self, session: DetachedConnection) -> str:
        """Hook: the last lines that the server wrote to its error output, once the session is over."""
        return ""

    def connect(self) -> bool:
        """Start the server, or reach it. Says in `last_error` why it failed.

        Returns:
            Whether it is connected; `True` without doing anything if it was connected before.
        """
        with self._lock:
            if self.is_connected():
                return True
            self._close()
            self.last_words = ""
            try:
                self._open = self._opened()
            except (BridgeError, TimeoutError) as error:
                self.last_error = f"{self.name} {error}"
                logger.debug("%s: not connected: %s", self.name, error)
                return False
            self.last_error = ""
            return True

    def disconnect(self) -> None:
        """Close the connection: ask the server to end, and end it if it does not within a few seconds."""
        with self._lock:
            self._close()

    def is_connected(self) -> bool:
        """Whether the connection is open: with a child process, whether that is alive."""
        open_ = self._open
        return open_ is not None and open_.lease.is_alive and open_.session.link is not None

    def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and wait for its response. A failure of this request alone is an error response.

        Args:
            method: The JSON-RPC method.
            params: Its parameters.

        Returns:
            The JSON-RPC response, with `result` or `error`.

        Raises:
            RuntimeError: The connection is not established, or is over.
            TimeoutError: It was not answered within `timeout`.
        """
        open_ = self._open
        if open_ is None:
            raise RuntimeError(f"{self.name} is not connected")
        with self._numbering:
            self._request_id += 1
            number = self._request_id
        if self.debug:
            logger.debug("%s: request %d: %s", self.name, number, method)
        session = open_.session
        if method != "initialize":
            return open_.lease.run(partial(session.request, method, params, number))
        response = open_.lease.run(partial(session.initialize, params or {}))
        handshake = session.handshake
        self._era = None if handshake is None else handshake.era
        if handshake is not None:
            self._introduction = params or {}
        return response

    async def relay(self, method: str, params: dict[str, Any], request: ClientRequest) -> dict[str, Any]:
        """Make a request on behalf of another; see `MCPTransport.relay`. Cancelling it cancels the server's work."""
        open_ = self._open
        if open_ is None:
            raise ToolError(f"{self.name} is not connected")
        return await open_.lease.wait(partial(open_.session.relay, method, params, request))

    def send_notification(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification; `notifications/initialized` was sent, where it has to be, with `initialize`.

        Args:
            method: The JSON-RPC method.
            params: Its parameters.
        """
        open_ = self._open
        if open_ is not None and method != _INITIALIZED:
            open_.lease.run(partial(open_.session.notify, method, params))

    def _opened(self) -> _Open:
        from gaia_bridge.sources.upstream.detached_connection import DetachedConnection

        limits = replace(
            UpstreamLimits(),
            connect_timeout=self.startup_timeout or self.timeout,
            list_timeout=self.timeout,
            list_cap=self.timeout,
            call_timeout=self.timeout,
            call_cap=self.timeout,
        )
        transport = self._make_transport(limits)
        lease = BACKGROUND.acquire()
        try:
            notified = _notifying(weakref.ref(self))
            session = DetachedConnection(
                self.name, transport, limits, notified, self._era, self.own_id, self._introduction
            )
            lease.run(session.open)
        except BaseException:
            lease.release()
            raise
        finalizer = weakref.finalize(self, _close_later, lease, session)
        finalizer.atexit = False  # the background loop closes everything by itself then
        return _Open(lease, session, finalizer)

    def _close(self) -> None:
        open_, self._open = self._open, None
        if open_ is None:
            return
        open_.finalizer.detach()
        try:
            open_.lease.run(open_.session.close)
            self.last_words = self._words_of(open_.session)
        except RuntimeError as error:
            logger.debug("%s: %s", self.name, error)  # the loop has ended, and everything with it
        finally:
            open_.lease.release()


def _notifying(transport: weakref.ref[ConnectionTransport]) -> Notified:
    """Passes notifications on, without keeping the transport alive: whoever forgets it, ends its connection."""

    def notified(method: str, params: dict[str, Any]) -> None:
        target = transport()
        if target is not None and target.on_notification is not None:
            target.on_notification(method, params)

    return notified


def _close_later(lease: Lease, session: DetachedConnection) -> None:
    """End the connection of a transport that was forgotten, without waiting for it."""

    async def close() -> None:
        try:
            await session.close()
        finally:
            lease.release()

    try:
        lease.start(close)
    except RuntimeError:
        lease.release()
