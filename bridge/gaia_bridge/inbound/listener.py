"""The HTTP listener: sockets with clear errors, and uvicorn made to end connections that uvicorn lets linger.

What plain uvicorn lacks here:

- A deadline for the head of a request and for the rest of a body that nobody reads any more (F-091), and one for a
  client that does not read its answer (F-090).
- A shutdown that ends. Open event streams would hold it for ever; here `GET` streams end at once and everything else
  has `HttpLimits.shutdown_grace` seconds. `sse_starlette` has a process-wide switch for that (`AppStatus`), which would
  cut off calls in flight and the streams of other servers too: it is only reset here, in case somebody pulled it.
- Silence: nothing is logged to stdout, and no signal handler is replaced. Both belong to the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import os
import re
import socket
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import anyio
import h11
import uvicorn
from anyio.abc import TaskStatus
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from gaia_bridge.errors import BridgeError, ListenError
from gaia_bridge.forking import FORKS
from gaia_bridge.inbound.guard import REQUEST_ID, body_for, error_body
from gaia_bridge.inbound.openai.errors import NEVER_AGAIN
from gaia_bridge.protocol.codes import INTERNAL_ERROR
from gaia_bridge.settings import HttpLimits

__all__ = ["HttpServer", "bind", "head_problem"]

logger = logging.getLogger(__name__)

BACKLOG = 2048
"""Connections that the kernel holds until they are accepted; uvicorn's own default."""

REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}

_SHORT_END = re.compile(rb"\n\r?\n")
_BODY_HEADER = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:")

_LISTENING = 0.5
"""Seconds for an application to end by itself once it has heard of a disconnect. uvicorn's own deadline is later."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Listen on every address that a name stands for: one for `127.0.0.1`, usually two for `localhost`.

    Args:
        host: An IPv4 or IPv6 address, or a name.
        port: The port, or 0 for any free one (the same for all addresses).

    Returns:
        Listening sockets, at least one. Clients that connect now wait until a server accepts them.

    Raises:
        ListenError: The address is taken, not allowed, not there or not understood (F-120).
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not 0 <= port <= 65535:
        raise ListenError(address, "there is no such port", "choose one from 0 to 65535")
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        absent: OSError | None = None
        for family, sockaddr in _resolve(host, port, address):
            if sockets:
                sockaddr = (sockaddr[0], sockets[0].getsockname()[1], *sockaddr[2:])
            try:
                sock = _listen(family, sockaddr)
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise _listen_error(address, error) from None
                absent = error  # "localhost" names ::1 also where IPv6 is switched off
            else:
                opened.callback(sock.close)
                FORKS.conceal(sock.fileno())
                sockets.append(sock)
        if absent is not None and not sockets:
            raise _listen_error(address, absent)
        opened.pop_all()
    return sockets


def _resolve(host: str, port: int, address: str) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise ListenError(
            address, f"the host cannot be resolved: {reason}", "use an address of this machine, such as 127.0.0.1"
        ) from None
    return list(dict.fromkeys((family, sockaddr) for family, _, _, _, sockaddr in found))


def _listen(family: socket.AddressFamily, sockaddr: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle's delay on
    try:
        if os.name == "posix":
            # Take the port again right after a restart. On Windows the same option would share it with a live server.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(sockaddr)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _listen_error(address: str, error: OSError) -> ListenError:
    match error.errno:
        case errno.EADDRINUSE:
            return ListenError(address, "the port is in use", "stop the other program, or choose another --port")
        case errno.EACCES:
            return ListenError(address, "not permitted", "ports below 1024 are reserved: choose another --port")
        case errno.EADDRNOTAVAIL:
            return ListenError(address, "this machine has no such address", "use 127.0.0.1, or one that it has")
        case _:
            return ListenError(address, error.strerror or str(error))


class HttpServer:
    """Serves one ASGI application until it is stopped or cancelled. To be run once.

    Args:
        app: The application, usually a `Guard`.
        sockets: Listening sockets from `bind`; closed when the server ends.
        limits: Deadlines and sizes; the defaults, if not given.
        on_shutdown: Called in order, first of all when the server is about to end: what must say goodbye to clients
            while their connections still stand. They must not block.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        sockets: Sequence[socket.socket],
        limits: HttpLimits | None = None,
        on_shutdown: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._sockets = list(sockets)
        requests = _Requests(app)
        self._server = _Server(_Config(requests, limits or HttpLimits()), on_shutdown, requests)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses and ports listened on."""
        return [sock.getsockname()[:2] for sock in self._sockets]

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop` is called or this is cancelled; then end every connection.

        Args:
            task_status: Told when connections are being accepted.

        Raises:
            BridgeError: The application's lifespan start-up failed.
        """
        AppStatus.should_exit = False  # left on, it would end every event stream in this process at its first byte
        self._server.on_started = task_status.started
        try:
            await self._server.serve(sockets=self._sockets)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await self._server.abort(self._sockets)
            raise
        finally:
            for sock in self._sockets:
                sock.close()

    def stop(self) -> None:
        """End `run` soon. May be called more than once, from any thread and from a signal handler."""
        self._server.should_exit = True


class _Config(uvicorn.Config):
    """uvicorn's settings, all in one place, with our limits beside them for the protocol."""

    def __init__(self, app: ASGIApp, limits: HttpLimits) -> None:
        super().__init__(
            app,  # pyright: ignore[reportArgumentType]  # Starlette and uvicorn type the same ASGI differently
            interface="asgi3",
            http=_Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=limits.header_bytes,
            timeout_keep_alive=math.ceil(limits.keep_alive),
            # Only for what outlives even its dropped connection (see _Server.shutdown).
            timeout_graceful_shutdown=math.ceil(limits.shutdown_grace) + 1,
            backlog=BACKLOG,
        )
        self.limits = limits
        self.unsent = _Unsent(limits)


class _Unsent:
    """What waits for all the clients that do not read: a bounded part of the memory (F-090).

    Args:
        limits: How much.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._waiting: dict[_Protocol, None] = {}
        """Those with full buffers, in the order in which they last read something."""

    def add(self, connection: _Protocol) -> None:
        """A connection's buffer is full. Called again when it got less since, and has its turn anew."""
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

    def remove(self, connection: _Protocol) -> None:
        """A connection's buffer is empty enough, or the connection is gone."""
        self._waiting.pop(connection, None)

    def _cut_off(self, connection: _Protocol) -> None:
        logger.warning("a client was cut off: it did not read %d bytes of its answers", connection.unsent)
        self.remove(connection)
        connection.transport.abort()


class _Requests:
    """ASGI middleware that can end the requests that are open, as if the application had returned by itself.

    uvicorn would cancel their tasks, and log that as an error of the application. Each request has a task of its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[asyncio.Task[Any]] = set()
        self._ended: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        self._open.add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
        finally:
            self._open.discard(task)
            self._ended.discard(task)

    def cancel(self) -> None:
        """End them all."""
        self._ended |= self._open
        for task in list(self._open):
            task.cancel()


class _Server(uvicorn.Server):
    def __init__(self, config: _Config, on_shutdown: Sequence[Callable[[], None]], requests: _Requests) -> None:
        super().__init__(config)
        self._requests = requests
        self._grace = config.limits.shutdown_grace
        self._on_shutdown = on_shutdown
        self._ended = False
        self.on_started: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signal handlers alone: the program decides what a signal means."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            raise BridgeError("the HTTP application failed to start; the log says why") from None
        self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say goodbye, stop accepting, wait for open requests, and after the grace drop what is left.

        A dropped connection reaches the application as a disconnect, which ends it cleanly. One that does not listen
        to that is cancelled a little later; uvicorn's own deadline is for what resists even that.
        """
        hooks, self._on_shutdown = self._on_shutdown, ()
        for hook in hooks:
            try:
                hook()
            except Exception:
                logger.exception("a shutdown hook failed")
        loop = asyncio.get_running_loop()
        deadlines = (
            loop.call_later(self._grace, self._drop_connections),
            loop.call_later(self._grace + _LISTENING, self._requests.cancel),
        )
        try:
            await super().shutdown(sockets)
            self._ended = True
        finally:
            for deadline in deadlines:
                deadline.cancel()

    async def abort(self, sockets: list[socket.socket]) -> None:
        """Shut down without grace, or cut short a shutdown that is going on."""
        if self.started and not self._ended:
            self._grace = 0
            await self.shutdown(sockets)

    def _drop_connections(self) -> None:
        for connection in list(cast("set[_Protocol]", self.server_state.connections)):
            connection.drop()


def head_problem(data: bytes) -> str | None:
    """Why two readers may not agree on the head of a request (RFC 9112, 2.2, 5.2 and 6.3); `None` until all of it came.

    h11 takes a lone line feed for the end of a line, and puts together lines that were folded. Nothing of a head is
    acted on before its end, so that one which comes in tiny pieces need not be looked at with each of them.

    Args:
        data: What came since the last request.
    """
    end = data.find(b"\r\n\r\n")
    if end >= 0:
        head = data[: end + 4]
    elif data and (short := _SHORT_END.search(data)) is not None:
        head = data[: short.end()]
    else:
        return None
    if head.count(b"\n") != head.count(b"\r\n"):
        return "A line of the head ends with a line feed alone; expected a carriage return before it."
    if b"\r\n " in head or b"\r\n\t" in head:
        return "A line of the head begins with a blank; expected each header on one line."
    lower = head.lower()
    if b"\r\ntransfer-encoding" in lower and len(set(_BODY_HEADER.findall(lower))) > 1:
        return "Content-Length and Transfer-Encoding came; expected one of them (RFC 9112 section 6.1)."
    return None


class _Answers:
    """The application as one connection calls it: knows how large the piece is that it has sent last.

    It does not know the connection, which would make a circle of the two, that waits for the garbage collector.

    Args:
        app: The application.
    """

    def __init__(self, app: Any) -> None:
        self.held = 0
        """Bytes of that piece; of the largest since the client has stopped to read."""
        self.flow: FlowControl | None = None
        """Whether it has."""
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def counted(message: Any) -> None:
            size = len(message.get("body", b""))
            is_paused = self.flow is not None and self.flow.write_paused
            self.held = max(self.held, size) if is_paused else size
            await send(message)

        await self._app(scope, receive, counted)


class _Protocol(H11Protocol):
    """One connection, with a deadline whenever the client is expected to act and nobody else is waiting for it.

    It is expected to send while a head is incomplete, and while a body goes on arriving after its request was answered
    (a refusal does not wait for it); it is expected to read while our buffer is full. A body that the application reads
    is under the guard's deadline, an idle connection under uvicorn's keep-alive.
    """

    def __init__(
        self,
        config: _Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = config.limits
        self._unsent = config.unsent
        self.app = self._answers = _Answers(self.app)
        self._deadline: asyncio.TimerHandle | None = None
        self._reading_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._answers.flow = self.flow
        FORKS.conceal(transport.get_extra_info("socket").fileno())
        self._set_deadline(self._limits.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        self._clear_reading_deadline()
        self._unsent.remove(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # which uvicorn leaves where the connection was reset

    def handle_events(self) -> None:
        if self.conn.their_state is h11.IDLE and (problem := head_problem(self.conn.trailing_data[0])):
            # Whoever reads it otherwise, such as a proxy, sees another request in what follows: nothing of it is read.
            self._answer(400, error_body(problem))
            self.transport.close()
            return
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        state = self.conn.their_state
        if state is h11.IDLE and self.timeout_keep_alive_task is None:
            self._set_deadline(self._limits.header_timeout)
        elif state is h11.SEND_BODY and self.cycle.response_complete:
            self._set_deadline(self._limits.body_timeout)
        else:
            self._clear_deadline()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is None:  # more bytes do not buy more time
            self._deadline = self.loop.call_later(seconds, self._expire)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            seconds = self._limits.header_timeout
            self._answer(408, error_body(f"The headers did not arrive within {seconds:g} seconds. Send again."))
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()
        self._unsent.add(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._clear_reading_deadline()
        self._unsent.remove(self)
        self._answers.held = 0

    @property
    def unsent(self) -> int:
        """Bytes that are kept for the client: a piece of an answer is kept whole until the last of it was sent."""
        return max(self.transport.get_write_buffer_size(), self._answers.held)

    def _expect_reading(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._reading_deadline = self.loop.call_later(self._limits.body_timeout, self._check_reading, unsent)

    def _check_reading(self, unsent: int) -> None:
        """Drop a client that took nothing since the deadline was set; one that is merely slow gets as long again."""
        if self.transport.get_write_buffer_size() < unsent:
            self._expect_reading()
            self._unsent.add(self)
        else:
            self.transport.abort()

    def _clear_reading_deadline(self) -> None:
        if self._reading_deadline is not None:
            self._reading_deadline.cancel()
            self._reading_deadline = None

    def drop(self) -> None:
        """End it now. A request that waits for its answer is told why there is none; a half answer is cut off."""
        unanswered = self.conn.our_state is h11.SEND_RESPONSE and self.cycle.scope["method"] != "HEAD"
        if unanswered and not self.transport.is_closing():
            self.cycle.disconnected = True  # what the application may still send goes nowhere
            message = "The server is shutting down, and did not wait for the end of this request."
            scope: Any = self.cycle.scope
            body = body_for(scope["path"], 503, message, INTERNAL_ERROR, scope.get(REQUEST_ID))
            self._answer(503, body, NEVER_AGAIN)
            self.transport.close()
            # It has to be taken now: whoever does not is not waited for.
            self.loop.call_later(_LISTENING, self.transport.abort)
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer what h11 cannot read; it is called while h11's complaint is being handled."""
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._answer(431, error_body(f"The headers have more than {self._limits.header_bytes} bytes. Send fewer."))
        else:
            self._answer(400, error_body(f"{msg} Expected HTTP/1.1."))
        self.transport.close()

    def _answer(self, status: int, body: bytes, also: Mapping[str, str] = MappingProxyType({})) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *((name.encode(), value.encode()) for name, value in also.items()),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=REASONS[status]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")

    def shutdown(self) -> None:
        """Close when idle, end an event stream at once, and let any other request finish."""
        super().shutdown()
        if self.conn.our_state is h11.SEND_BODY and self.cycle.scope["method"] == "GET":
            self.cycle.disconnected = True  # what the application still sends goes nowhere; it hears of a disconnect
            self.transport.write(self.conn.send(h11.EndOfMessage()) or b"")
            self.transport.close()
