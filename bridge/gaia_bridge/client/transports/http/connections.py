"""A pool of HTTP/1.1 connections to one origin.

httpx2 costs six times as much per call as everything else; this pool has only what an MCP client needs. There are no
cookies or redirects, and the caller sets every limit. Of several addresses of a host, some are tried concurrently (RFC
8305).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.client.transports.http.http1 import Abortable, Http1Connection, Response, Watcher

_IDLE: Final = 32
"""The most idle connections that are kept; more are only needed for short peaks."""
Make = Callable[[], Http1Connection]
"""Creates a connection that is not open yet."""
Way = Callable[[Make, float], Awaitable[Http1Connection]]
"""Opens a connection to a server within some seconds, TLS included; raises `ConnectError` if that fails."""
_HEAD_START: Final = 0.25
"""Seconds after which the next address of a host is tried concurrently (RFC 8305, section 5)."""
C = TypeVar("C", bound=Abortable)


class Connections:
    """A pool of connections to one origin.

    Args:
        connect_timeout: Seconds for opening a connection, TLS included.
        write_timeout: Seconds within which the server must receive a request.
        keep_alive: Seconds for which an idle connection is kept.
        alive_after: Seconds of silence after which TCP keep-alive probes are sent.
        share: Creates the share of the loop's time for a connection.
    """

    def __init__(
        self,
        way: Way,
        *,
        connect_timeout: float,
        write_timeout: float,
        keep_alive: float,
        alive_after: int,
        share: Callable[[], Share],
    ) -> None:
        self._way = way
        self._connect_timeout = connect_timeout
        self._write_timeout = write_timeout
        self._keep_alive = keep_alive
        self._alive_after = alive_after
        self._share = share
        self._idle: deque[Http1Connection] = deque()  # the most recently used one is the last
        self._all: set[Http1Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    def begin(self, request: bytes, watcher: Watcher | None = None) -> Response | None:
        """Send one request at once on an idle connection; return `None` if there is none."""
        connection = self._idle_connection()
        return None if connection is None else connection.send(request, self._write_timeout, watcher)

    async def send(self, request: bytes) -> Response:
        """Send one request, without retries, and wait for the head of its response. Cancelling closes the connection.

        Raises:
            ConnectError: No connection could be opened.
            ClosedError, SendTimeoutError, Http1Error: As of `Response.begin`.
        """
        response = self.begin(request) or (await self._open()).send(request, self._write_timeout)
        await response.begin()
        return response

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._all):
            connection.abort()

    def _idle_connection(self) -> Http1Connection | None:
        """Return the most recently used idle connection, so that the others can expire."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.idle_since < self._keep_alive and connection.is_silent:
                return connection
            connection.abort()
        return None

    async def _open(self) -> Http1Connection:
        connection = await self._way(lambda: Http1Connection(self, self._share()), self._connect_timeout)
        if self._is_closed:
            connection.abort()
            raise ConnectError("it is not wanted any more")
        if not connection.is_open:  # a server that is being killed takes connections and drops them
            connection.abort()
            raise ConnectError("the connection was closed before anything was sent on it")
        _ask_whether_there(connection.socket, self._alive_after)
        return connection

    # Called by connections

    def opened(self, connection: Http1Connection) -> None:
        """Add a connection that is open."""
        self._all.add(connection)

    def freed(self, connection: Http1Connection) -> None:
        """Take back a connection whose response is complete, to be used again."""
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if len(self._idle) > _IDLE:
            self._idle.popleft().abort()
        if self._sweep is None:
            self._sweep = loop.call_later(self._keep_alive, self._close_idle)

    def lost(self, connection: Http1Connection) -> None:
        """Remove a connection that is closed."""
        self._all.discard(connection)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and loop.time() - self._idle[0].idle_since >= self._keep_alive:
            self._idle.popleft().abort()
        self._sweep = (
            loop.call_at(self._idle[0].idle_since + self._keep_alive, self._close_idle) if self._idle else None
        )


def _ask_whether_there(sock: socket.socket, idle: int) -> None:
    """Enable TCP keep-alive: four probes, the first after `idle` seconds of silence."""
    wanted = {"TCP_KEEPIDLE": idle, "TCP_KEEPALIVE": idle, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in wanted.items():  # not all systems have all of these options
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, int(getattr(socket, name)), value)


class ConnectError(Exception):
    """No connection could be opened; the text or the cause has the reason."""


class ConnectTimeoutError(ConnectError):
    """No connection could be opened in time."""


class ProxyError(ConnectError):
    """No connection could be opened because of a proxy on the way; the text is a sentence with the reason."""


async def connect_directly(
    host: str, port: int, tls: ssl.SSLContext | None, make: Make, seconds: float
) -> Http1Connection:
    """Open a connection without a proxy; with the first parameters bound, this is a `Way`."""
    try:
        async with asyncio.timeout(seconds):
            return await first_connected(host, port, tls, make)
    except TimeoutError as error:
        if error.errno is None:
            raise ConnectTimeoutError from None
        raise ConnectError(str(error)) from error
    except (OSError, ValueError, OverflowError) as error:  # also of a host that the system cannot look up
        raise ConnectError(str(error)) from error


async def first_connected(host: str, port: int, tls: ssl.SSLContext | None, make: Callable[[], C]) -> C:
    """Connect to a host; if none of its addresses accepts a connection, raise the `OSError` of the first."""

    async def connect(address: str) -> C:
        name = None if tls is None else host
        _, made = await loop.create_connection(make, address, port, ssl=tls, server_hostname=name)
        return made

    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in answers))
    attempts: list[asyncio.Task[C]] = []
    winner: C | None = None
    try:
        while winner is None and (addresses or not all(attempt.done() for attempt in attempts)):
            if addresses:
                attempts.append(loop.create_task(connect(addresses.pop(0))))
            await asyncio.wait(
                [attempt for attempt in attempts if not attempt.done()],
                timeout=_HEAD_START if addresses else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            connected = [attempt for attempt in attempts if attempt.done() and attempt.exception() is None]
            winner = connected[0].result() if connected else None
        return winner or attempts[0].result()  # which raises the error of the first attempt
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(partial(_abandon, winner))
        if winner is None:
            await asyncio.wait(attempts)


def _abandon(winner: C | None, attempt: asyncio.Task[C]) -> None:
    """Close the connection of an attempt, unless it is the one that is used."""
    if not attempt.cancelled() and attempt.exception() is None and (connection := attempt.result()) is not winner:
        connection.abort()
