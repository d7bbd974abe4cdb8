"""One HTTP connection: httptools under uvicorn, as strict as h11, and with a deadline for each wait.

Two readers of the same bytes must see the same requests, or one request hides in another. httptools is strict where it
reads, but does not say where a request ends, bounds no head, keeps blanks at the end of values (RFC 9110, 5.5), takes
fields behind a chunked body for fields of the head, and drops the body of a request that asks for an upgrade. So it is
given one request after the other, and a head only when all of it has come and is fit to be read.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.constants import KIB
from gaia_bridge.protocol.codes import INTERNAL_ERROR
from gaia_bridge.protocol.messages import decoded
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.runtime.peer_credentials import is_of_this_user
from gaia_bridge.server.http.error_bodies import NEVER_AGAIN, body_for
from gaia_bridge.server.http.guard import REQUEST_ID
from gaia_bridge.server.http.request_cycle import Cycle, Piece, Unsent
from gaia_bridge.server.http.request_heads import (
    HEAD_END,
    INVALID_REQUEST,
    SeenHead,
    fields_problem,
    head_problem,
)
from gaia_bridge.server.transports.http_direct import HttpDirectClient
from gaia_bridge.server.transports.scope_keys import (
    ADMITTED,
    BODY_ARRIVED,
    DIRECT,
    DISCONNECT,
    PARSED,
    SAME_HEAD,
    TAKES_OVER,
    WHOLE_BODY,
)
from gaia_bridge.settings import HttpLimits

logger = logging.getLogger(__name__)

LISTENING: Final = 0.5
"""Seconds for an application to end by itself once it has heard of a disconnect. uvicorn's own deadline is later."""
_GRAIN: Final = 0.001
"""Seconds by which a timer may be early: those of uvloop count milliseconds."""
_UPGRADE: Final = re.compile(rb"\r\nupgrade:([\t -~\x80-\xff]*)(?=\r\n)", re.IGNORECASE)
_BLANKS: Final = b" \t"
_HEAD_BYTES: Final = 2048
"""Bytes of a head that is remembered while its connection lasts; heads of MCP clients have about 300."""
_WHOLE_BYTES: Final = 16 * KIB
"""Bytes of a body that is handed over whole: an idle connection keeps the last one, so it must not be large."""


class _Part(Enum):
    """The next part that a client is expected to send."""

    HEAD = auto()
    SIZED_BODY = auto()
    CHUNKED_BODY = auto()
    NEXT = auto()
    """Another request, which is not read until this one is answered."""
    NOTHING = auto()
    """Nothing more is read: the connection ends."""


_BODY: Final = (_Part.SIZED_BODY, _Part.CHUNKED_BODY)


class ConnectionConfig(uvicorn.Config):
    """uvicorn's settings, with the objects that all connections share."""

    def __init__(self, app: Any, limits: HttpLimits, **settings: Any) -> None:
        super().__init__(app, http=HttpConnection, **settings)
        self.limits = limits
        self.unsent = Unsent(limits)
        self._dated = -1
        self._date: list[tuple[bytes, bytes]] = []

    def date(self) -> list[tuple[bytes, bytes]]:
        """Return the `Date` of an answer, renewed at most once a second, without a timer."""
        now = int(time.time())
        if self.date_header and now != self._dated:
            self._dated, self._date = now, [(b"date", formatdate(now, usegmt=True).encode())]
        return self._date


class HttpConnection(HttpToolsProtocol):
    """One connection, with a deadline whenever the client is expected to act and nobody else is waiting for it.

    It is expected to send while a head is incomplete, and while a body goes on arriving after its request was answered
    (a refusal does not wait for it); it is expected to read while our buffer is full. A body that the application reads
    is under the guard's deadline, an idle connection under uvicorn's keep-alive.

    The parts of a request (`_Part`), and what follows them:

        HEAD            a head like the last one, with its whole body: HEAD or NEXT; another head: a body
        SIZED_BODY      its last byte: HEAD if the request was answered, else NEXT
        CHUNKED_BODY    its last chunk: the same
        NEXT            the answer: HEAD
        any of them     a request that cannot be read, or an answer that ends the connection: NOTHING
    """

    cycle: Cycle | None  # type: ignore[assignment]  # uvicorn's type leaves out `None`
    app: Any  # uvicorn types the same ASGI in three ways
    scope: Any  # of the last request; uvicorn's type has neither state nor extensions

    def __init__(
        self,
        config: ConnectionConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.parser = httptools.HttpRequestParser(self)  # with none of the leniencies that uvicorn gives it
        self._date = config.date
        self._limits = config.limits
        self._unsent = config.unsent
        self._part = _Part.HEAD
        self._held = b""
        """The bytes that came and were not read yet: a part of a head, or those behind an unanswered request."""
        self._searched = 0
        """Bytes of `_held` that were searched for the end of the head, which does not begin in them."""
        self._length = 0
        """Bytes of a sized body that are still to come."""
        self._without_body = 0
        """Bytes since the last byte of a chunked body."""
        self._last = b""
        """The last three bytes read of a chunked body: its end may begin in them."""
        self._is_described = False
        self._is_whole = False
        """Whether the parser has read the whole request."""
        self._persists = False
        self._last_head: SeenHead | None = None
        self._body_wait: asyncio.TimerHandle | None = None
        """The timer while a head has come, and its small body is waited for before the application is called."""
        self._is_impatient = False
        self._piece = Piece()
        self._deadline: asyncio.TimerHandle | None = None
        self._reading_deadline: asyncio.TimerHandle | None = None
        self._direct: DirectCall | None = None
        """The direct call that is not answered yet: there is no cycle for it."""
        self._is_idle = False
        """Whether the last request is answered, and nothing came since."""
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        FORKS.conceal(connection.fileno())
        if connection.family is socket.AF_UNIX and not is_of_this_user(connection):
            logger.warning("a program of another user connected, and was sent away")
            transport.abort()
        self._set_deadline(self._limits.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._make_ordinary()
        self._part, self._held = _Part.NOTHING, b""
        for timer in (self._deadline, self._reading_deadline, self._body_wait):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reading_deadline = self._body_wait = None
        self._unsent.remove(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # which uvicorn leaves where the connection was reset
        if self.cycle is not None:
            self.cycle.leave()

    # Reading

    def data_received(self, data: bytes) -> None:
        self._is_idle = False
        self._held = self._held + data if self._held else data
        if self._part is _Part.HEAD:
            self._read_same()
        if self._held and self._body_wait is None:
            self._read()
        else:
            self._watch()  # nearly all requests take this way: they are read, or wait for their body

    def _read(self) -> None:
        try:
            may_go_on = True
            while may_go_on and self._held:
                may_go_on = self._read_part()
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.logger.warning("Invalid HTTP request received.")
            self._refuse(400, INVALID_REQUEST)
        self._watch()

    def _read_part(self) -> bool:
        """Read the next part of the held bytes; return whether there may be more to read."""
        match self._part:
            case _Part.HEAD:
                return self._read_same() or (self._body_wait is None and self._read_new_head())
            case _Part.SIZED_BODY:
                self._read_sized()
                return True
            case _Part.CHUNKED_BODY:
                return self._read_chunks()
            case _Part.NEXT:
                self.flow.pause_reading()
            case _Part.NOTHING:
                self._held = b""
        return False

    def _read_same(self) -> bool:
        """Read a request whose head is the same as that of the last, once its body is here. Return whether it was read.

        Most clients and proxies send the head and the body apart. A small body is waited for, because calling the
        application before its body is there, and waking it afterwards, would double the cost of the request.
        """
        last, held = self._last_head, self._held
        if last is None or not held.startswith(last.head):
            return False
        start = len(last.head)
        end = start + last.length
        if len(held) < end:
            if self._body_wait is None and last.length <= _WHOLE_BYTES and not self._is_impatient:
                self._body_wait = self.loop.call_later(self._limits.body_patience, self._read_impatiently)
            return False
        if self._body_wait is not None:
            self._body_wait.cancel()
            self._body_wait = None
        self._held, self._searched = held[end:], 0
        body = held[start:end]
        if DIRECT in last.facts and not self.flow.write_paused and last.length <= _WHOLE_BYTES:
            message = decoded(body)
            if last.facts[ADMITTED]() and (call := last.facts[DIRECT].begin(message, last.length, self)) is not None:
                self._direct, self._part = call, _Part.NEXT
            else:
                self._start_same(last, {PARSED: (message, last.length)})
            return True
        self._start_same(last, {WHOLE_BODY: body} if last.length <= _WHOLE_BYTES else {}, body)
        return True

    def _start_same(
        self,
        last: SeenHead,
        extensions: Mapping[str, Any],
        body: bytes = b"",
        done: Callable[[Any], object] | None = None,
    ) -> None:
        """Start the request with the head of the last one, once its body is here."""
        self.scope = {**last.scope, "headers": [*last.scope["headers"]], "state": self.app_state.copy()}
        cycle = self._start("1.1", last.facts, done=done)
        cycle.body += body
        self.scope["extensions"].update(extensions)
        self._end_request()

    # Direct calls: a `DirectPlace`

    can_answer = True  # one request at a time, and none while the client is slow to read

    def send_direct(self, body: bytes, client: HttpDirectClient) -> None:
        """Send the answer to a direct call."""
        self._direct = None
        if not self.transport.is_closing():
            self.transport.write(client.head(self._date()) + b"%d\r\n%b\r\n%b" % (len(body), client.named, body))
        self.on_response_complete()

    def _make_ordinary(self) -> None:
        """Give the request that is in flight a cycle, if it is a direct call."""
        if self._direct is not None:
            self._direct.make_ordinary()

    def begin_ordinary(self, call: DirectCall) -> None:
        """Take the ordinary way with the request of a direct call."""
        assert self._last_head is not None
        self._direct = None
        self._start_same(self._last_head, {PARSED: (call.message, call.size), TAKES_OVER: call}, done=call.dismiss)

    def _read_impatiently(self) -> None:
        """Call the application without the body: the application may refuse the head."""
        self._body_wait = None
        self._is_impatient = True
        self._read()
        self._is_impatient = False

    def _read_new_head(self) -> bool:
        held, most = self._held, self._limits.header_bytes
        end = held.find(HEAD_END, self._searched)
        head = held if end < 0 else held[: end + 4]
        if len(head) > most:
            self._refuse(431, f"The headers have more than {most} bytes. Send fewer.")
        elif held[0] <= 0x20:  # which no request begins with: it is not waited for
            self._refuse(400, INVALID_REQUEST)
        elif (problem := head_problem(head)) is not None:
            # A proxy that reads the head in another way sees other requests behind it: nothing of that is read.
            self._refuse(400, problem)
        elif end < 0:
            self._searched = max(0, len(held) - 3)
        else:
            self._held, self._searched, self._is_whole = held[len(head) :], 0, False
            self._begin(head)
            return True
        return False

    def _read_sized(self) -> None:
        held, size = self._held, min(len(self._held), self._length)
        self._length -= size
        self._held = held[size:]
        self.parser.feed_data(memoryview(held)[:size])
        if self._is_whole:
            self._end_request()

    def _read_chunks(self) -> bool:
        """Read a chunked body up to each place where it may end, which is after two line ends, until it has ended."""
        held, start = self._held, 0
        pieces = memoryview(held)
        joint = (self._last + held[:3]).find(HEAD_END)
        end = 0 if joint < 0 else joint + 4 - len(self._last)
        while start < len(held) and not self._is_whole:
            if end <= start:
                next_end = held.find(HEAD_END, start)
                end = len(held) if next_end < 0 else next_end + 4
            self._without_body += end - start
            self.parser.feed_data(pieces[start:end])
            start = end
        self._last = (self._last + held[-3:])[-3:]
        self._held = held[start:]
        if self._is_whole:
            self.parser = httptools.HttpRequestParser(self)  # on which no trailer has left a mark
            self._end_request()
        elif self._without_body > (most := self._limits.header_bytes):
            self._refuse(431, f"More than {most} bytes came about a chunk, or after the last. Send fewer.")
        return True

    def _begin(self, head: bytes) -> None:
        upgrades = _UPGRADE.findall(head)
        if upgrades:  # we offer no other protocol, and with this header the parser would not read the body
            head = _UPGRADE.sub(b"", head)
        self._is_described = False
        self.parser.feed_data(head)
        if not self._is_described:
            raise httptools.HttpParserError("the parser sees no end of the head")
        self.headers += [(b"upgrade", value.strip(_BLANKS)) for value in upgrades]
        values, version = dict(self.headers), self.parser.get_http_version()
        if (problem := fields_problem(self.headers, values, version)) is not None:
            self._refuse(400, problem)
            return
        self._describe(version)
        if b"transfer-encoding" in values:
            self._part, self._without_body, self._last = _Part.CHUNKED_BODY, 0, b""
        else:
            self._part, self._length = _Part.SIZED_BODY, int(values.get(b"content-length", b"0"))
        expects = b"expect" in values and version == "1.1" and b"100-continue" in values[b"expect"].lower()
        facts = None if expects or upgrades or version == "1.0" else self._remember(head)
        if facts is not None and len(self._held) < self._length <= _WHOLE_BYTES and not self._is_impatient:
            self.parser = httptools.HttpRequestParser(self)
            self._part, self._held = _Part.HEAD, head + self._held  # it is known now, and read as such
            return
        self._start(version, facts, expects=expects)
        if self._is_whole:
            self._end_request()

    def _remember(self, head: bytes) -> dict[object, Any] | None:
        """Remember a head that may come again; return the place for facts about it."""
        if len(head) > _HEAD_BYTES or self._part is _Part.CHUNKED_BODY or not self._persists:
            self._last_head = None
            return None
        self._last_head = SeenHead(head, self._length, dict(self.scope), {})
        return self._last_head.facts

    def _start(
        self,
        version: str,
        facts: dict[object, Any] | None,
        *,
        expects: bool = False,
        done: Callable[[Any], object] | None = None,
    ) -> Cycle:
        cycle = Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self._date(),
            message_event=asyncio.Event(),
            expect_100_continue=expects,
            keep_alive=version != "1.0" and self._persists,
            on_response=self.on_response_complete,
        )
        cycle.is_old = version == "1.0"
        cycle.piece, cycle.departure = self._piece, self.loop.create_future()
        self.cycle = cycle  # pyright: ignore[reportIncompatibleVariableOverride]
        self.scope["extensions"] = {DISCONNECT: cycle.departure}
        if facts is not None:
            self.scope["extensions"][SAME_HEAD] = facts
        task = self.loop.create_task(cycle.run_asgi(self.app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        if done is not None:
            task.add_done_callback(done)
        return cycle

    def _describe(self, version: str) -> None:
        """Complete the scope. The request target stays as it came; the guard refuses one that is not a path."""
        path, _, query = self.url.partition(b"?")
        text = path.decode("ascii")
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = version
        self.scope["path"] = self.root_path + (unquote(text) if "%" in text else text)
        self.scope["raw_path"] = self.root_path.encode("ascii") + path
        self.scope["query_string"] = query

    def _end_request(self) -> None:
        assert self.cycle is not None
        self._is_whole = False
        self.scope["extensions"][BODY_ARRIVED] = {}
        if not self.cycle.response_complete:
            self._part = _Part.NEXT if self.cycle.keep_alive else _Part.NOTHING
            self.cycle.more_body = False
            self.cycle.message_event.set()
        else:
            self._part = _Part.HEAD

    # Callbacks of the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part is _Part.HEAD:  # fields behind a body are dropped: they could contradict the head
            self.headers.append((name.lower(), value.strip(_BLANKS)))

    def on_headers_complete(self) -> None:
        self._is_described = True
        self._persists = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._without_body = 0
        if self.cycle is None or self.cycle.response_complete:
            return
        self.cycle.body += body
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._is_whole = True

    # Deadlines

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        is_open = not self.transport.is_closing()
        if is_open:
            self.flow.resume_reading()
            self._is_idle, self._idle_since = True, self.loop.time()
            if self.timeout_keep_alive_task is None:  # one timer serves many requests
                self._keep_alive(self.timeout_keep_alive)
        if self._part is _Part.NEXT:
            self._part = _Part.HEAD
            if self._held and is_open:
                self._is_idle = False
                self._read()
        self._watch()

    def _keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._is_idle and not self.transport.is_closing():
            rest = self._idle_since + self.timeout_keep_alive - self.loop.time()
            if rest > _GRAIN:
                self._keep_alive(rest)
            else:
                self.transport.close()

    def _watch(self) -> None:
        if self._part is _Part.HEAD and not self._is_idle and self._body_wait is None:
            self._set_deadline(self._limits.header_timeout)
        elif self._part in _BODY and self.cycle is not None and self.cycle.response_complete:
            self._set_deadline(self._limits.body_timeout)
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is None:  # further bytes do not extend it
            self._deadline = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self.transport.is_closing():
            return
        if self._part is _Part.HEAD and self._held:
            seconds = self._limits.header_timeout
            self._refuse(408, f"The headers did not arrive within {seconds:g} seconds. Send again.")
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()
        self._unsent.add(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading_deadline is not None:
            self._reading_deadline.cancel()
            self._reading_deadline = None
        self._unsent.remove(self)
        self._piece.size = 0

    @property
    def unsent(self) -> int:
        """Bytes that are kept for the client: a piece of an answer is kept whole until the last of it was sent."""
        return max(self.transport.get_write_buffer_size(), self._piece.size)

    def _expect_reading(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._reading_deadline = self.loop.call_later(self._limits.body_timeout, self._check_reading, unsent)

    def _check_reading(self, unsent: int) -> None:
        """Drop a client that read nothing since the deadline was set; a slow client gets as long again."""
        if self.transport.get_write_buffer_size() < unsent:
            self._expect_reading()
            self._unsent.add(self)
        else:
            self.transport.abort()

    # The end

    def drop(self) -> None:
        """End the connection now, after `shutdown`. A request that waits for its answer gets an error; a half answer is
        cut off."""
        cycle = self.cycle
        unanswered = cycle is not None and not cycle.response_started and cycle.scope["method"] != "HEAD"
        if cycle is not None and unanswered and not self.transport.is_closing():
            message = "The server is shutting down, and did not wait for the end of this request."
            scope: Any = cycle.scope
            body = body_for(scope["path"], 503, message, INTERNAL_ERROR, scope.get(REQUEST_ID))
            cycle.disconnected = True  # what the application may still send goes nowhere
            self._answer(503, body, NEVER_AGAIN)
            self.transport.close()
            # A client that does not read it soon is cut off.
            self.loop.call_later(LISTENING, self.transport.abort)
        else:
            self.transport.abort()

    def shutdown(self) -> None:
        """Close when idle, end an event stream at once, and let any other request finish."""
        self._make_ordinary()
        super().shutdown()
        if self.cycle is not None and self.cycle.is_stream and self.cycle.scope["method"] == "GET":
            self.cycle.end_stream()

    def _refuse(self, status: int, message: str) -> None:
        """Answer a request that cannot be read, and end the connection. An answer that has begun is cut off."""
        cycle, in_body = self.cycle, self._part in _BODY
        self._part, self._held = _Part.NOTHING, b""
        if cycle is None or not in_body or not cycle.response_started:
            if cycle is not None:
                cycle.leave()
            self._answer(status, body_for("", status, message))
            self.transport.close()
        elif cycle.response_complete:
            self.transport.close()
        else:
            self.transport.abort()

    def _answer(self, status: int, body: bytes, also: Mapping[str, str] = MappingProxyType({})) -> None:
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close", **also}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + body)
