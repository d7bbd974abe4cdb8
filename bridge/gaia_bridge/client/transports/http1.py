"""One HTTP/1.1 connection: one request on it at a time, and an answer whose body is read as it is wanted.

What httptools takes apart is checked for what it leaves open: how long a head may be, what comes unasked, where a body
without a length ends. A server can keep its reader busy with next to nothing, such as interim answers and chunks of one
byte; so a connection is read no faster than its share of the loop's time allows.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, Protocol

import httptools

from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.constants import KIB

__all__ = ["PIECE", "ClosedError", "Connection", "Http1Error", "NotTakenError", "Owner", "Response"]

PIECE: Final = 64 * KIB
"""Bytes that are handed out at once. What they say must not keep every other server waiting."""
_HEAD: Final = 100 * KIB
"""Bytes of all header lines of one answer, and of anything else that is no body."""
_AHEAD: Final = 256 * KIB
"""Bytes of a body that are taken in before anybody wants them."""


class Http1Error(Exception):
    """The server does not keep to HTTP/1.1."""


class ClosedError(Exception):
    """The connection ended before the answer was complete."""


class NotTakenError(Exception):
    """The server did not take the request in time."""


class Owner(Protocol):
    """Who keeps connections."""

    def opened(self, connection: Connection) -> None:
        """A connection is open."""
        ...

    def freed(self, connection: Connection) -> None:
        """It can be used again."""
        ...

    def lost(self, connection: Connection) -> None:
        """It is closed."""
        ...


class Response:
    """The answer to one request. Has to be read to its end, finished or closed.

    Args:
        connection: What it comes on.
    """

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        """Of the answer; 0 before it has begun."""
        self.headers: dict[str, str] = {}
        """By names in lower case; what came several times is joined by commas (RFC 9110, section 5.3)."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._body = bytearray()
        self._complete = False
        self._failure: Exception | None = None
        self._news: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None
        self._handed_out: float | None = None  # when, unless something else has run since

    async def begin(self) -> None:
        """Wait until status and headers are there.

        Raises:
            ClosedError: The connection ended first.
            Http1Error: What came is no answer.
            NotTakenError: The request was not taken.
        """
        while not self.status:
            await self._wait()

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; empty at its end. One after the other.

        Raises:
            ClosedError: The connection ended first.
            Http1Error: What came is no body.
        """
        if self._handed_out is not None:
            pause = self._connection.share.spend(time.thread_time() - self._handed_out)
            if pause:
                await asyncio.sleep(pause)
            elif self._body:  # nobody has to wait until all that is there was worked on
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
        """Let go of it. A connection that still carries the rest of the body is closed."""
        if not self._complete:
            self._connection.abort()

    def finish(self, seconds: float) -> asyncio.Future[None]:
        """Let the rest go by; if it ends within some seconds, its connection can be used again.

        Returns:
            Done when the connection is free, or closed. Nobody needs to wait for it.
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

    # What the connection tells

    def began(self, status: int, headers: dict[str, str]) -> None:
        """The head is there."""
        self.status, self.headers = status, headers
        self._wake()

    def came(self, piece: bytes) -> bool:
        """A piece of the body is there; returns whether more may come before it is read."""
        if self._over is not None:
            return True
        self._body += piece
        self._wake()
        return len(self._body) < _AHEAD

    def ended(self, failure: Exception | None = None) -> None:
        """All of it is there, or no more of it comes."""
        self._complete, self._failure = failure is None, failure
        self._wake()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

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


class Connection(asyncio.Protocol):
    """One connection. What its server sends unasked ends it: it would be taken for the next answer.

    Args:
        owner: Is told what becomes of it.
        share: Of the loop's time.
    """

    def __init__(self, owner: Owner, share: Share) -> None:
        self.share = share
        self.idle_since = 0.0
        """When it was last freed, by the loop's clock."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._response: Response | None = None
        self._fields: dict[str, str] = {}
        self._head = 0  # bytes of the header lines of this answer
        self._fruitless = 0  # bytes since something came of them
        self._fruit = False
        self._to_the_end = False  # whether the body has the length of the connection
        self._unasked = False
        self._is_full = False
        self._is_ahead = False
        self._is_resting = False
        self._is_paused = False
        self._patience: asyncio.TimerHandle | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        # As many servers of few lines have it; between one client and one server nobody is deceived by that.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent on it, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def socket(self) -> Any:
        """The socket below."""
        return self._transport.get_extra_info("socket")

    def send(self, request: bytes, patience: float) -> Response:
        """Send a request.

        Args:
            request: All of it.
            patience: Seconds for the server to take it.
        """
        response = self._response = Response(self)
        self._transport.write(request)
        if self._is_full:
            self._patience = self._loop.call_later(patience, self._fail, NotTakenError())
        return response

    def abort(self) -> None:
        """Close it at once."""
        self._to_the_end = False  # what has come of the body is not all of it
        if self._transport is not None:
            self._transport.abort()

    def read_on(self) -> None:
        """There is room for more of the body."""
        self._is_ahead = False
        self._pause_or_resume()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = transport
        self._transport.set_write_buffer_limits(0)  # what is not sent at once has not been taken
        self._owner.opened(self)

    def pause_writing(self) -> None:
        """The server does not take what is sent."""
        self._is_full = True

    def resume_writing(self) -> None:
        """It has."""
        self._is_full = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def data_received(self, data: bytes) -> None:
        """Something came."""
        began = time.thread_time()
        self._fruit = False
        if self._response is None:
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
        if pause := self.share.spend(time.thread_time() - began):
            self._is_resting = True
            self._pause_or_resume()
            self._loop.call_later(pause, self._rested)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._transport = None
        self.resume_writing()
        self._owner.lost(self)
        response, self._response = self._response, None
        if response is None:
            return
        if self._to_the_end and exc is None:
            response.ended()
            return
        failure = ClosedError("the connection was closed")
        failure.__cause__ = exc
        response.ended(failure)

    # httptools

    def on_message_begin(self) -> None:
        """An answer begins."""
        self._unasked = self._response is None
        self._fields = {}
        self._head = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header line, or one of those behind the chunks of a body."""
        self._head += len(name) + len(value)
        if self._head > _HEAD:
            self._fail_head()
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self._fields[key] = f"{self._fields[key]}, {text}" if key in self._fields else text

    def on_headers_complete(self) -> None:
        """All of them, but for interim answers: of those, nobody has use."""
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
        self._fields = {}  # of what comes behind the chunks, nobody has use

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._fruit = True
        if self._response is not None and not self._response.came(body):
            self._is_ahead = True
            self._pause_or_resume()

    def on_message_complete(self) -> None:
        """An answer is complete."""
        if self._response is None or self._parser.get_status_code() < 200:
            return
        response, self._response = self._response, None
        response.ended()
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
