"""HTTP/1.1 to one origin: kept connections, one request on each at a time, bodies that are read as they are wanted.

What `httpx2` does for a call costs six times what the call does. Nothing here is for anybody but `http_client`: no
cookies, no proxies, no redirects; every bound is the caller's.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import httptools

from gaia_bridge.outbound.transports.budgets import Share

__all__ = ["ClosedError", "ConnectError", "Connections", "Http1Error", "Response", "WriteTimeout"]

_HEAD_BYTES: Final = 64 * 1024
"""All header lines of one answer."""
_INTERIM: Final = 16
"""Interim answers (1xx) before the real one; nobody has use for more."""
_BUFFERED: Final = 256 * 1024
"""Bytes of a body that are read before anybody wants them."""
_PIECE: Final = 64 * 1024
"""Bytes that are decoded at once: a thousand may come of one."""


class Http1Error(Exception):
    """The other side does not keep to HTTP/1.1."""


class ConnectError(Exception):
    """There is no connection; the cause says why. `TimeoutError` if it took too long."""


class ClosedError(Exception):
    """The connection ended before the answer was complete."""


class WriteTimeout(Exception):
    """The other side did not take a request."""


class Connections:
    """The connections to one origin.

    Args:
        host: Where to, as it is looked up.
        port: The port.
        tls: How to verify; `None` for plain HTTP.
        connect_timeout: Seconds for a connection, TLS included.
        write_timeout: Seconds for a request to be taken.
        keep_alive: Seconds that an idle connection is kept.
        alive_after: Seconds of silence after which TCP asks whether the other side is there.
        share: Gives each connection its share of the loop's time.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        connect_timeout: float,
        write_timeout: float,
        keep_alive: float,
        alive_after: int,
        share: Callable[[], Share],
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._connect_timeout = connect_timeout
        self.write_timeout = write_timeout
        self._keep_alive = keep_alive
        self._alive_after = alive_after
        self._share = share
        self._idle: deque[_Connection] = deque()
        self._all: set[_Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def send(self, head: bytes, body: bytes) -> Response:
        """Send one request, and wait for the head of its answer. Cancelling closes the connection.

        Args:
            head: The request line and the header lines, with the empty line at their end.
            body: The content.

        Raises:
            ConnectError: There is no connection.
            ClosedError: The connection ended before an answer came.
            WriteTimeout: The request was not taken.
            Http1Error: What came is no answer.
        """
        connection = self._kept() or await self._open()
        response = Response(connection)
        connection.response = response
        try:
            await connection.write(head + body if len(body) < _PIECE else head, self.write_timeout)
            if len(body) >= _PIECE:
                await connection.write(body, self.write_timeout)
            await response.wait_for_head()
        except BaseException:
            connection.abort()
            raise
        return response

    def close(self) -> None:
        """Close all of them."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._all):
            connection.abort()

    def _kept(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and now - connection.idle_since < self._keep_alive:
                return connection
            connection.abort()
        return None

    async def _open(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._free, self._share()),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls is not None else None,
                    happy_eyeballs_delay=0.25,
                )
        except (OSError, ssl.SSLError, ValueError) as error:  # `TimeoutError` is one of them
            raise ConnectError from error
        _ask_whether_there(connection.transport.get_extra_info("socket"), self._alive_after)
        self._all.add(connection)
        connection.when_lost = self._all.discard
        return connection

    def _free(self, connection: _Connection) -> None:
        """An answer is complete: its connection can be used again."""
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(self._keep_alive, self._close_idle)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and loop.time() - self._idle[0].idle_since >= self._keep_alive:
            self._idle.popleft().abort()
        self._sweep = None
        if self._idle:
            self._sweep = loop.call_at(self._idle[0].idle_since + self._keep_alive, self._close_idle)


class Response:
    """The answer to one request. Has to be read to its end, or closed.

    Args:
        connection: What it comes on.
    """

    def __init__(self, connection: _Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """By lowercase names; what came several times is joined by commas (RFC 9110, section 5.3)."""
        self.fields: list[tuple[bytes, bytes]] = []
        self._connection = connection
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._is_complete = False
        self._error: Exception | None = None
        self._news: asyncio.Future[None] | None = None
        self._decoder: Any = None
        self._undecoded = b""
        self._handed_out: float | None = None

    async def wait_for_head(self) -> None:
        """Wait until status and headers are there."""
        while not self.status:
            await self._wait()
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding in ("gzip", "deflate"):
            self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)

    async def read(self) -> bytes:
        """Wait for the next bytes of the body, decoded; empty at its end.

        Raises:
            ClosedError: The connection ended first.
            zlib.error: The body is not encoded as it says.
        """
        await self._pace()
        while True:
            if self._decoder is not None and (self._undecoded or self._pieces):
                if piece := self._decoded():
                    return self._handed(piece)
            elif self._pieces:
                return self._handed(self._next())
            elif self._is_complete:
                if self._decoder is not None and not self._decoder.eof and self._decoder.unconsumed_tail:
                    continue
                return b""
            else:
                await self._wait()

    def close(self) -> None:
        """Let go of it; a connection that still carries the rest is closed."""
        if not self._is_complete:
            self._connection.abort()

    def _next(self) -> bytes:
        piece = self._pieces.popleft()
        self._buffered -= len(piece)
        if self._buffered < _BUFFERED:
            self._connection.resume()
        return piece

    def _decoded(self) -> bytes:
        data = self._undecoded or self._next()
        piece: bytes = self._decoder.decompress(data, _PIECE)
        self._undecoded = self._decoder.unconsumed_tail
        return piece

    def _handed(self, piece: bytes) -> bytes:
        """What a piece costs whoever gets it shows when the next is asked for, unless something else ran meanwhile."""
        self._handed_out = time.thread_time()
        asyncio.get_running_loop().call_soon(self._something_else_runs)
        return piece

    def _something_else_runs(self) -> None:
        self._handed_out = None

    async def _pace(self) -> None:
        if self._handed_out is not None:
            if pause := self._connection.share.spend(time.thread_time() - self._handed_out):
                await asyncio.sleep(pause)

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    # What the connection tells.

    def began(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        """The head came."""
        self.fields = fields
        for name, value in fields:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self.status = status
        self._wake()

    def came(self, piece: bytes) -> bool:
        """A piece of the body came; returns whether more may come before this is read."""
        self._pieces.append(piece)
        self._buffered += len(piece)
        self._wake()
        return self._buffered < _BUFFERED

    def ended(self) -> None:
        """All of it came."""
        self._is_complete = True
        self._wake()

    def failed(self, error: Exception) -> None:
        """No more of it comes."""
        if not self._is_complete:
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class _Connection(asyncio.Protocol):
    """One connection.

    Args:
        free: Told when it can be used again.
        share: Of the loop's time.
    """

    def __init__(self, free: Callable[[_Connection], None], share: Share) -> None:
        self.transport: Any = None
        self.response: Response | None = None
        self.idle_since = 0.0
        self.share = share
        self.when_lost: Callable[[_Connection], None] = lambda connection: None
        self._free = free
        self._parser: Any = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._interim = 0
        self._is_paused = False
        self._has_end = False
        self._room: asyncio.Future[None] | None = None
        self._is_full = False

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent on it."""
        return self.transport is not None and not self.transport.is_closing()

    async def write(self, data: bytes, patience: float) -> None:
        """Send something, and wait until it was taken."""
        if self.transport is None:
            raise ClosedError("the connection was closed")
        self.transport.write(data)
        if self._is_full:
            self._room = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(patience):
                    await self._room
            except TimeoutError:
                raise WriteTimeout from None

    def abort(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()

    def resume(self) -> None:
        """Read on."""
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport = transport

    def pause_writing(self) -> None:
        """The other side does not read."""
        self._is_full = True

    def resume_writing(self) -> None:
        """It does again."""
        self._is_full = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self.transport = None
        self.when_lost(self)
        if self._room is not None and not self._room.done():
            self._room.set_exception(ClosedError(str(exc or "")))
        response, self.response = self.response, None
        if response is None:
            return
        if response.status and not self._has_end and exc is None:  # a body that ends with the connection
            response.ended()
        else:
            error = ClosedError(str(exc or ""))
            error.__cause__ = exc
            response.failed(error)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        if self.response is None:  # nobody asked for it
            self.abort()
            return
        began = time.thread_time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Http1Error(str(error)))
        else:
            if self.response is not None and not self.response.status:
                self._head_bytes += len(data)
                if self._head_bytes > _HEAD_BYTES:
                    self._fail(Http1Error(f"more than {_HEAD_BYTES} bytes of headers"))
        if pause := self.share.spend(time.thread_time() - began):
            self._pause()
            asyncio.get_running_loop().call_later(pause, self.resume)

    def _pause(self) -> None:
        if not self._is_paused and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()

    def _fail(self, error: Exception) -> None:
        response, self.response = self.response, None
        if response is not None:
            response.failed(error)
        self.abort()

    # httptools

    def on_message_begin(self) -> None:
        """An answer begins."""
        self._fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header line."""
        self._fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """All of them."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        self._head_bytes = 0
        known = {name for name, _ in self._fields}
        self._has_end = not known.isdisjoint((b"content-length", b"transfer-encoding")) or status in (204, 304)
        if self.response is not None:
            self.response.began(status, self._fields)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self.response is not None and not self.response.came(body):
            self._pause()

    def on_message_complete(self) -> None:
        """An answer is complete."""
        if self._parser.get_status_code() < 200:
            self._interim += 1
            if self._interim > _INTERIM:
                self._fail(Http1Error("interim answers without end"))
            return
        self._interim = 0
        response, self.response = self.response, None
        keep = self._parser.should_keep_alive()
        if response is not None:
            response.ended()
        if keep and self.is_usable:
            self._free(self)
        elif self.transport is not None:
            self.transport.close()


def _ask_whether_there(sock: socket.socket, idle: int) -> None:
    """Have TCP ask a silent peer whether it is there: after `idle` seconds, four times."""
    wanted: Mapping[str, int] = {"TCP_KEEPIDLE": idle, "TCP_KEEPALIVE": idle, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in wanted.items():  # systems differ in this
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
