"""One HTTP/1.1 client connection: one request at a time, and a response whose body is read on demand.

httptools parses; this module checks what httptools leaves open: the size of the head, unsolicited responses, and where
a body without a length ends. A server can keep the parser busy at little cost, with interim responses or chunks of one
byte, so a connection is read no faster than its share of the loop's time allows.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

import httptools

from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.constants import KIB

PIECE: Final = 64 * KIB
"""The most bytes of a body that are returned at once: processing them must not keep other servers waiting."""
_HEAD: Final = 100 * KIB
"""The most bytes of all header lines of one response, and of anything else that is not body."""
_AHEAD: Final = 256 * KIB
"""Bytes of a body that are buffered before reading from the socket is paused."""


class Http1Error(Exception):
    """The server violates HTTP/1.1."""


class ClosedError(Exception):
    """The connection ended before the response was complete."""


class SendTimeoutError(Exception):
    """The server did not receive the request in time."""


class Owner(Protocol):
    """A pool, whose methods its connections call when they are open, free for the next request, and closed."""

    def opened(self, connection: Http1Connection) -> None: ...
    def freed(self, connection: Http1Connection) -> None: ...
    def lost(self, connection: Http1Connection) -> None: ...


class Watcher(Protocol):
    """Notified of a response that no task waits for."""

    def takes(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return whether to wait for the whole body of a response with this head, if that is small."""
        ...

    def ready(self) -> None:
        """Take the response: it is complete, or a task has to read it. Called once."""
        ...


class Response:
    """The response to one request. Must be read to its end, finished or closed.

    Args:
        watcher: Notified as soon as the response is complete, unless a task has to read the response.
    """

    def __init__(self, connection: Http1Connection, watcher: Watcher | None = None) -> None:
        self.status = 0
        """The status code; 0 until the head has arrived."""
        self.headers: dict[str, str] = {}
        """By lowercase names; repeated headers are joined by commas (RFC 9110, section 5.3)."""
        self._connection = connection
        self._watcher = watcher
        self._loop = asyncio.get_running_loop()
        self._body = bytearray()
        self._complete = False
        self._failure: Exception | None = None
        self._news: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None
        self._handed_out: float | None = None  # when the last piece was returned, until the loop has run something else

    async def begin(self) -> None:
        """Wait until status and headers are there. On failure, and if that is cancelled, the response is closed.

        Raises:
            ClosedError: The connection ended first.
            Http1Error: The response violates HTTP/1.1.
            SendTimeoutError: The server did not receive the request in time.
        """
        try:
            while not self.status:
                await self._wait()
        except BaseException:
            self.close()  # not the connection: if the response is complete, it may be in use again
            raise

    @property
    def whole(self) -> bytes | None:
        """The whole body, if it has arrived, and none of it was read."""
        return bytes(self._body) if self._complete else None

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; empty at its end. Raises as `begin` does. Not for concurrent use."""
        if self._handed_out is not None:
            pause = self._connection.share.spend(time.thread_time() - self._handed_out)
            if pause:
                await asyncio.sleep(pause)
            elif self._body:  # let other tasks run between the pieces that have arrived
                await asyncio.sleep(0)
        while not self._body:
            if self._complete:
                return b""
            await self._wait()
        piece = bytes(self._body[:PIECE])
        del self._body[:PIECE]
        if not self._complete and len(self._body) < _AHEAD:
            self._connection.read_on()
        self._handed_out = time.thread_time()
        self._loop.call_soon(self._something_else_runs)
        return piece

    def close(self) -> None:
        """Discard the response. If its body is incomplete, the connection is closed."""
        self._watcher = None
        if not self._complete:
            self._connection.abort()

    def finish(self, seconds: float) -> asyncio.Future[None]:
        """Discard the rest of the body; if it ends within some seconds, the connection can be used again.

        The future is done when the connection is free, or closed. It need not be awaited.
        """
        over = self._over = self._loop.create_future()
        if self._complete or self._failure is not None:
            over.set_result(None)
        else:
            timer = self._loop.call_later(seconds, self._connection.abort)
            over.add_done_callback(lambda _: timer.cancel())
            self._connection.read_on()
        self._body.clear()
        return over

    # Called by the connection

    def began(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers
        if self._watcher is None:
            self._wake()
        elif not self._watcher.takes(status, headers):
            self.notify()

    def came(self, piece: bytes) -> bool:
        """Add a piece of the body; return whether there is room for more."""
        if self._over is not None:
            return True
        self._body += piece
        if self._watcher is None:
            self._wake()
        elif len(self._body) > PIECE:
            self.notify()
        return len(self._body) < _AHEAD

    def ended(self, failure: Exception | None = None) -> None:
        """End the response. If it is complete and has a watcher, `notify` follows once the parser has returned."""
        self._complete, self._failure = failure is None, failure
        if self._watcher is None:
            self._wake()
        elif failure is not None:
            self.notify()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def notify(self) -> None:
        """Notify the watcher, unless that has happened."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.ready()

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._news = self._loop.create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _something_else_runs(self) -> None:
        self._handed_out = None


class Abortable(asyncio.Protocol):
    """A protocol over a socket that can be closed at once."""

    def abort(self) -> None:
        """Close the socket at once."""
        raise NotImplementedError


class Http1Connection(Abortable):
    """One connection. It is closed if the server sends unsolicited data, which would be read as the next response."""

    def __init__(self, owner: Owner, share: Share) -> None:
        self.share = share
        self.idle_since = 0.0
        """The time when the connection was last freed, by the loop's clock."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._response: Response | None = None
        self._fields: dict[str, str] = {}
        self._head = 0  # bytes of the header lines of this response
        self._fruitless = 0  # bytes since the last complete head, or since the last piece of a body
        self._fruit = False
        self._to_the_end = False  # whether the body ends with the connection
        self._unasked = False
        self._is_full = False
        self._is_ahead = False
        self._is_resting = False
        self._is_paused = False
        self._patience: asyncio.TimerHandle | None = None
        self._poll: select.poll | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        # Many small servers need this. A connection has answers of one origin alone, also by way of a proxy, so that it
        # allows no smuggling.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_silent(self) -> bool:
        """Whether the socket has no unread data or end of file, which the event loop may not have reported yet."""
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.socket.fileno(), select.POLLIN)
        return not self._poll.poll(0)

    @property
    def socket(self) -> Any:
        return self._transport.get_extra_info("socket")

    def send(self, request: bytes, patience: float, watcher: Watcher | None = None) -> Response:
        """Send a request, which the server must receive within `patience` seconds."""
        response = self._response = Response(self, watcher)
        self._transport.write(request)
        if self._is_full:
            self._patience = self._loop.call_later(patience, self._fail, SendTimeoutError())
        return response

    def abort(self) -> None:
        self._to_the_end = False  # the body is incomplete
        if self._transport is not None:
            self._transport.abort()

    def read_on(self) -> None:
        """Resume reading, since there is room for more of the body."""
        self._is_ahead = False
        self._pause_or_resume()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(0)  # any unsent data calls `pause_writing`
        self._owner.opened(self)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def data_received(self, data: bytes) -> None:
        """Parse received data, and slow reading down if that cost the loop too much time."""
        began = time.thread_time()
        self._fruit = False
        response = self._response
        if response is None:
            self._unasked = True
        else:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self._fail(Http1Error(f"it sent what is no HTTP/1.1: {error}"))
            self._fruitless = 0 if self._fruit else self._fruitless + len(data)
            if self._fruitless > _HEAD:
                self._fail_head()
        if self._unasked:
            self.abort()
        elif self._response is None and self.is_open:
            self._owner.freed(self)
        if response is not None and self._response is not response:
            response.notify()
        if pause := self.share.spend(time.thread_time() - began):
            self._is_resting = True
            self._pause_or_resume()
            self._loop.call_later(pause, self._rested)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response, since the connection is closed."""
        self._transport = None
        self.resume_writing()
        self._owner.lost(self)
        response, self._response = self._response, None
        if response is None:
            return
        if self._to_the_end and exc is None:
            response.ended()
            response.notify()
            return
        failure = ClosedError("the connection was closed")
        failure.__cause__ = exc
        response.ended(failure)

    # httptools

    def on_message_begin(self) -> None:
        """Begin a response; one without a request is noted as unsolicited."""
        self._unasked = self._response is None
        self._fields = {}
        self._head = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header field, or a trailer field after a chunked body."""
        self._head += len(name) + len(value)
        if self._head > _HEAD:
            self._fail_head()
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self._fields[key] = f"{self._fields[key]}, {text}" if key in self._fields else text

    def on_headers_complete(self) -> None:
        """Begin the response, whose head is complete. Interim responses are ignored."""
        self._fruit = True
        status = self._parser.get_status_code()
        if self._response is None or status < 200:
            return
        coding = self._fields.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            self._fail(Http1Error("it sends the body in an encoding that nobody asked for"))
            return
        self._to_the_end = coding is None and "content-length" not in self._fields and status not in (204, 304)
        self._response.began(status, self._fields)
        self._fields = {}  # trailer fields are ignored

    def on_body(self, body: bytes) -> None:
        self._fruit = True
        if self._response is not None and not self._response.came(body):
            self._is_ahead = True
            self._pause_or_resume()

    def on_message_complete(self) -> None:
        if self._response is None or self._parser.get_status_code() < 200:
            return
        response, self._response = self._response, None
        response.ended()
        if self._is_ahead:
            self.read_on()
        if not self._parser.should_keep_alive() or self._is_full:
            self.abort()

    def _fail_head(self) -> None:
        self._fail(Http1Error(f"it sent more than {_HEAD} bytes of headers"))

    def _fail(self, failure: Exception) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.ended(failure)
        self.abort()

    def _rested(self) -> None:
        self._is_resting = False
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        paused = self._is_ahead or self._is_resting
        if paused == self._is_paused or not self.is_open:
            return
        self._is_paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
