"""The transports that come with the bridge: each the synchronous face of one connection on the background loop."""

from __future__ import annotations

import logging
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from gaia.background_loop import BACKGROUND
from gaia.mcp.client.transports.base import MCPTransport
from gaia.mcp.client.transports.open_connection import AskedMeanwhile, BorrowedServer, OpenConnection
from gaia_bridge.calls.bridge_hops import new_id
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import BridgeError, ToolError
from gaia_bridge.model import ChangeKind, ServerSpec
from gaia_bridge.protocol.kinds import KIND_OF_METHOD, list_changed
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.shared_servers import SHARED_SERVERS, Lender

if TYPE_CHECKING:
    from gaia.mcp.client.transports.detached_connection import DetachedConnection, Notified
    from gaia_bridge.client import Era
    from gaia_bridge.client.transport import Transport

__all__ = ["ConnectionTransport"]

logger = logging.getLogger(__name__)

_LENT_LOOP_PATIENCE: Final = 2.0
"""Seconds that a bridge's event loop is given to say whether an agent may use one of its servers. One that stands still
longer may be waiting for that agent."""

_INITIALIZED = "notifications/initialized"
_TOOLS_CHANGED = list_changed(ChangeKind.TOOLS)

_LOOKS: Final = frozenset(("initialize", "ping", "server/discover", *KIND_OF_METHOD))
"""Requests after which a server holds nothing that it did not hold before."""

_MOVES: Final = 3
"""How often a connection is tried to be moved that is being greeted meanwhile."""


class ConnectionTransport(MCPTransport):
    """Base of our own transports. Thread-safe; every method blocks its thread only.

    `initialize` greets the server in whatever revision of MCP it speaks, also where that has no such request. What the
    first request is decides: when it is another one, all are sent as they are. Once the server was greeted, it is so
    over every later connection, before what else it is asked for: of many threads, only one sees a connection end. The
    first request may then take as long as connecting does, besides its own `timeout`.

    Where `shares` is set, a server that a bridge of this process runs is used instead of a second one like it: at once
    where it runs already; and when the bridge begins to run it, by a connection over which the server was asked for
    nothing yet but what it offers. Any other stays as it is, because the server may hold something for it.

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
        """The id that requests list as passed; with one, the server may ask, and `relay` works."""
        self.shares = False
        """Whether a server that a bridge of this process runs may be used, where it is the same."""
        self.refusal: Callable[[], str | None] = lambda: None
        """Why no server of our own must be started instead of that one, if so."""
        self._request_id = 0
        self._calling = threading.Condition()
        self._lock = threading.Lock()
        self._open: OpenConnection | None = None
        self._era: Era | None = None
        self._introduction: dict[str, Any] | None = None

    @abstractmethod
    def _make_transport(self, limits: UpstreamLimits) -> Transport:
        """Return the core's transport. Its modules are imported here, on first use, because they cost half a second.

        Raises:
            BridgeError: What we were given does not say how to reach the server.
        """

    def _server(self) -> ServerSpec | None:
        """Return how the server is started or reached, if several may use it; else `None` (hook)."""
        return None

    def _words_of(self, session: DetachedConnection) -> str:
        """Return the last lines of the server's error output, once the session is over (hook)."""
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
        return open_ is not None and open_.is_open

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
        if (before := self._open) is not None and before.lender is not None and before.lease.is_current:
            self._leave(before)
        with self._using(method) as open_:
            with self._calling:
                number = self._request_id = self._request_id + 1
            if self.debug:
                logger.debug("%s: request %d: %s", self.name, number, method)
            if method == "initialize":
                return self._greeted(open_, params or {})
            asked = None if open_.relaying is None or method in _LOOKS else AskedMeanwhile.current()
            if open_.relaying is not None and asked is not None and asked.client_capabilities:
                return open_.lease.run(partial(open_.relaying.request_for, method, params or {}, number, asked))
            return open_.lease.run(partial(open_.session.request, method, params, number))

    def _greeted(self, open_: OpenConnection, params: dict[str, Any]) -> dict[str, Any]:
        response = open_.lease.run(partial(open_.session.initialize, params))
        handshake = open_.session.handshake
        if open_.lender is None:
            self._era = None if handshake is None else handshake.era
        if handshake is not None:
            self._introduction = params
        return response

    async def relay(self, method: str, params: dict[str, Any], request: ClientRequest) -> dict[str, Any]:
        """Make a request on behalf of another; see `MCPTransport.relay`. Cancelling it cancels the server's work."""
        if self._open is None:
            raise ToolError(f"{self.name} is not connected")
        with self._using(method) as open_:
            session = open_.relaying or open_.session
            return await open_.lease.wait(partial(session.relay, method, params, request))

    def send_notification(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification; `notifications/initialized` was sent, where it has to be, with `initialize`.

        Args:
            method: The JSON-RPC method.
            params: Its parameters.
        """
        open_ = self._open
        if open_ is None or method == _INITIALIZED:
            return
        notify = partial(open_.session.notify, method, params)
        if open_.lender is not None and open_.lease.is_current:
            open_.lease.start(notify)
        else:
            open_.lease.run(notify)

    @contextmanager
    def _using(self, method: str) -> Generator[OpenConnection]:
        """Yield the open connection, which stays open until the end of the block, unless somebody disconnects."""
        with self._calling:
            open_ = self._open
            if open_ is None:
                raise RuntimeError(f"{self.name} is not connected")
            open_.calls += 1
            if method not in _LOOKS:
                open_.mark_used()
        try:
            yield open_
        finally:
            with self._calling:
                open_.calls -= 1
                self._calling.notify_all()

    def _opened(self) -> OpenConnection:
        server = self._server() if self.shares else None
        lender = None if server is None else _lender_of(server)
        if server is not None and lender is not None and (borrowed := self._borrowed(server, lender)) is not None:
            return borrowed
        return self._own(server, lender)

    def _own(self, server: ServerSpec | None = None, tried: Lender | None = None) -> OpenConnection:
        """Open a connection to a server of our own.

        Args:
            server: The server; with it, the connection is exchanged when a bridge begins to run that server.
            tried: Who runs it already, and did not serve.
        """
        limits = self._limits()
        transport = self._make_transport(limits)
        lease = BACKGROUND.acquire()
        try:
            session = self._session(transport, limits, self._era, self.own_id, asks=True)
            lease.run(session.open)
        except BaseException:
            lease.release()
            raise
        open_ = OpenConnection(lease, session, session.close)
        if server is not None:
            move = _moving(weakref.ref(self))
            open_.stop_seeking = SHARED_SERVERS.seek(server, move)
            if (lender := SHARED_SERVERS.find(server)) is not None and lender is not tried:
                move()  # it began a moment ago, or cannot be waited for in this thread
        open_.attach_to(self)
        return open_

    def _borrowed(self, server: ServerSpec, lender: Lender) -> OpenConnection | None:
        """Open a connection to a server that a bridge of this process runs; `None` if that one cannot be used.

        Raises:
            TimeoutError: It is too slow.
        """
        from gaia_bridge.bridge.chaining import AgentTransport as InProcess

        limits = self._limits()
        # Both speak the handshake, whatever the server does: its questions can come while a call stands.
        making = partial(self._session, InProcess(lender.source), limits, None, self.own_id or new_id())
        both = BorrowedServer(making(asks=False), making(asks=True, hears=False))
        try:
            lease = lender.lease()
            if not lease.run(partial(lender.agrees, server, self.timeout), _LENT_LOOP_PATIENCE):
                return None
        except (RuntimeError, TimeoutError) as error:
            logger.debug("%s: no bridge has it: %s", self.name, error)
            return None
        try:
            lease.run(partial(lender.open, both, server), limits.start_timeout)
        except TimeoutError:
            raise TimeoutError(f"could not be reached within {limits.start_timeout:g} s") from None
        except (BridgeError, RuntimeError) as error:
            logger.debug("%s: the server of the bridge is not used: it %s", self.name, error)
            return None
        open_ = OpenConnection(lease, both.session, partial(lender.close, both), lender, both.relaying)
        open_.attach_to(self)
        return open_

    def _session(
        self, transport: Transport, limits: UpstreamLimits, era: Era | None, own: str, *, asks: bool, hears: bool = True
    ) -> DetachedConnection:
        """Make a connection, not open yet: with `asks`, the server may ask over it; with `hears`, it gets its news."""
        from gaia.mcp.client.transports.detached_connection import DetachedConnection

        notified = _notifying(weakref.ref(self)) if hears else _unheard
        introduction = self._introduction if hears else self._introduction or {}
        return DetachedConnection(self.name, transport, limits, notified, era, own, introduction, asks=asks)

    def _limits(self) -> UpstreamLimits:
        usual = UpstreamLimits()
        return replace(
            usual,
            connect_timeout=self.startup_timeout or self.timeout,
            list_timeout=self.timeout,
            list_cap=self.timeout,
            call_timeout=self.timeout,
            call_cap=max(self.timeout, usual.call_cap),  # progress begins the time anew
        )

    def _move(self) -> None:
        """Use the server of a bridge from now on instead of our own, of which nothing is lost."""
        old, server = self._open, self._server()
        lender = None if server is None else SHARED_SERVERS.find(server)
        if old is None or old.lender is not None or old.is_used or server is None or lender is None:
            return
        new: OpenConnection | None = None
        has_moved = False
        with suppress(RuntimeError, TimeoutError):  # then it stays as it is
            new = self._borrowed(server, lender)
            has_moved = new is not None and any(self._exchanged(old, new) for _ in range(_MOVES))
        if new is not None:
            (old if has_moved else new).close_later()
        if has_moved:
            logger.debug("%s: the server of the bridge is used from now on", self.name)
            if self.on_notification is not None:
                self.on_notification(_TOOLS_CHANGED, {})

    def _exchanged(self, old: OpenConnection, new: OpenConnection) -> bool:
        """Put a connection in the place of another, if that is not in use; whether it was done."""
        introduction = self._introduction
        if introduction is not None:
            new.lease.run(partial(new.session.initialize, introduction), self.timeout)
        with self._calling:
            self._calling.wait_for(lambda: not old.calls, self.timeout)
        with self._lock, self._calling:
            if self._open is not old or old.calls or old.is_used or self._introduction is not introduction:
                return False
            self._open = new
            return True

    def _leave(self, old: OpenConnection) -> None:
        """Have a server of our own: who calls from the event loop of the bridge cannot wait for what it does."""
        with self._lock:
            if self._open is not old:
                return
            if (reason := self.refusal()) is not None:
                raise RuntimeError(f"{self.name} cannot be used on the event loop of the bridge: {reason}")
            try:
                new = self._own()
                if self._introduction is not None:
                    new.lease.run(partial(new.session.initialize, self._introduction))
            except BridgeError as error:
                raise RuntimeError(f"{self.name} {error}") from None
            self._open = new
        old.close_later()

    def _close(self) -> None:
        open_, self._open = self._open, None
        if open_ is None:
            return
        if open_.lender is not None or open_.lease.is_current:  # nothing ends that has to be waited for
            open_.close_later()
            return
        open_.detach()
        try:
            open_.lease.run(open_.close)
            self.last_words = self._words_of(open_.session)
        except RuntimeError as error:
            logger.debug("%s: %s", self.name, error)  # the loop has ended, and everything with it
        finally:
            open_.lease.release()


def _notifying(transport: weakref.ref[ConnectionTransport]) -> Notified:
    """Return a listener for notifications that does not keep the transport alive: a forgotten one disconnects."""

    def notified(method: str, params: dict[str, Any]) -> None:
        target = transport()
        if target is not None and target.on_notification is not None:
            target.on_notification(method, params)

    return notified


def _unheard(method: str, params: dict[str, Any]) -> None:
    """Drop a notification: another connection gets it as well."""


def _lender_of(server: ServerSpec) -> Lender | None:
    """Return the bridge that runs a server, unless that is on this very thread, which would wait for itself."""
    lender = SHARED_SERVERS.find(server)
    if lender is not None:
        with suppress(RuntimeError):  # it ends
            return None if lender.lease().is_current else lender
    return None


def _moving(transport: weakref.ref[ConnectionTransport]) -> Callable[[], None]:
    """Return a function that moves a connection in a thread of its own, so that its caller does not wait for that."""

    def move() -> None:
        if (target := transport()) is not None:
            target._move()  # pyright: ignore[reportPrivateUsage]

    def start() -> None:
        with suppress(RuntimeError):  # the process is ending
            threading.Thread(target=move, name="shares a server", daemon=True).start()

    return start
