"""One HTTP request and its answer, as uvicorn's ASGI application calls them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from msgspec import Struct
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from gaia_bridge.settings import HttpLimits

logger = logging.getLogger(__name__)

_LOWER: Final = frozenset((b"cache-control", b"content-length", b"content-type", b"date", b"mcp-session-id"))
"""Names of headers as most answers of ours write them: they need not be made lower case to be recognised."""


class HasUnsent(Protocol):
    """A connection whose client may be slow to read."""

    transport: asyncio.Transport

    @property
    def unsent(self) -> int:
        """Bytes that are kept for the client."""
        ...


class Unsent:
    """Bounds the memory that is used by answers to clients that do not read them."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._waiting: dict[HasUnsent, None] = {}
        """The connections with full buffers, in the order in which they last read something."""

    def add(self, connection: HasUnsent) -> None:
        """Add a connection whose buffer is full, or move it to the end of the line: its client has read."""
        self.remove(connection)
        self._waiting[connection] = None
        if connection.unsent > self._limits.unsent_bytes:
            self._cut_off(connection)
        excess = sum(other.unsent for other in self._waiting) - self._limits.unsent_total_bytes
        for slowest in list(self._waiting):
            if excess <= 0:
                break
            excess -= slowest.unsent
            self._cut_off(slowest)

    def remove(self, connection: HasUnsent) -> None:
        """Remove a connection whose buffer is empty enough, or that is gone."""
        self._waiting.pop(connection, None)

    def _cut_off(self, connection: HasUnsent) -> None:
        logger.warning("a client was cut off: it did not read %d bytes of its answers", connection.unsent)
        self.remove(connection)
        connection.transport.abort()


class Piece(Struct):
    """The piece of an answer that was sent last: it is kept whole until the last of it was sent."""

    size: int = 0
    """The size in bytes; of the largest piece since the client has stopped to read."""


class Cycle(RequestResponseCycle):
    """One request and its answer. The head of an answer of known length is written together with its first piece."""

    piece: Piece
    departure: asyncio.Future[None]
    """Done once the client has left before its answer was complete.

    It knows neither the connection nor the request, which would make circles that wait for the garbage collector.
    """
    is_old = False
    """Whether the client speaks HTTP/1.0, which has no chunks."""
    _head = b""
    _is_unframed = False
    """Whether the answer ends with the connection."""

    async def send(self, message: Any) -> None:
        """Send one ASGI message."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind, expected = message["type"], "http.response.body" if self.response_started else "http.response.start"
        if kind != expected or self.response_complete:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}; the answer is complete, or {expected!r} was due.")
        if self.response_started:
            self._continue(message.get("body", b""), bool(message.get("more_body", False)))
        else:
            self.response_started, self.waiting_for_100_continue = True, False
            self._start(message["status"], [*self.default_headers, *message.get("headers", ())])

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        lines = [STATUS_LINE[status]]
        has_length, says_close = False, False
        for raw_name, value in headers:
            name = raw_name if raw_name in _LOWER else raw_name.lower()
            if name == b"content-length":
                self.expected_content_length, has_length = int(value), True
            elif name == b"transfer-encoding":
                continue  # chunks are made here, or not at all
            elif name == b"connection":
                says_close = b"close" in {token.strip() for token in value.lower().split(b",")}
                self.keep_alive = self.keep_alive and not says_close
            lines.append(b"%b: %b\r\n" % (name, value))
        has_body = self.scope["method"] != "HEAD" and status not in (204, 304)
        self.chunked_encoding = has_body and not has_length and not self.is_old
        self._is_unframed = has_body and not has_length and self.is_old
        if not has_length and not self.is_old and status not in (204, 304):  # said of what a HEAD asks for, too
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive and not says_close:
            lines.append(b"connection: close\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
            raise RuntimeError("Invalid HTTP header: it has a line end, or a NUL.")
        if not has_body:
            self.expected_content_length = 0
        self._head = head + b"\r\n"
        if not has_length:  # a stream, whose first piece may take long
            self.transport.write(self._head)
            self._head = b""

    def _continue(self, body: bytes, more: bool) -> None:
        size = len(body)
        self.piece.size = max(self.piece.size, size) if self.flow.write_paused else size
        if self.scope["method"] == "HEAD":
            body = b""
        elif self.chunked_encoding:
            chunk = b"%x\r\n%b\r\n" % (size, body) if size else b""
            body = chunk if more else chunk + b"0\r\n\r\n"
        elif not self._is_unframed:
            self.expected_content_length -= size
            if self.expected_content_length < 0 or (self.expected_content_length and not more):
                self.keep_alive = False
                raise RuntimeError("The body of the answer has not as many bytes as its Content-Length says.")
        if len(body) <= HIGH_WATER_LIMIT:  # one write for both, unless the copy costs more than the write
            body = self._head + body
        elif self._head:
            self.transport.write(self._head)
        self._head = b""
        if body:
            self.transport.write(body)
        if not more:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def leave(self) -> None:
        """Note that the client is gone: the application is notified, and further messages of it go nowhere."""
        if not self.response_complete:
            self.disconnected = True
            self.message_event.set()
            if not self.departure.done():
                self.departure.set_result(None)

    def end_stream(self) -> None:
        """End an answer of unknown length here, as if the application had ended it."""
        if self.chunked_encoding:
            self.transport.write(b"0\r\n\r\n")
        self.transport.close()
        self.leave()

    @property
    def is_stream(self) -> bool:
        """Whether the answer has begun, is not complete, and declared no length."""
        return self.response_started and not self.response_complete and bool(self.chunked_encoding or self._is_unframed)
