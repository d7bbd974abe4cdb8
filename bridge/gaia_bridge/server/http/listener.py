"""The HTTP listener: sockets with clear errors, and a uvicorn that ends when it is to end.

Features that plain uvicorn lacks, besides those of each connection (`connection`):

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
import socket
import sys
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, Final, cast

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Receive, Scope, Send

from gaia_bridge.errors import BridgeError, ListenError
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.connection import LISTENING, ConnectionConfig, HttpConnection
from gaia_bridge.settings import HttpLimits

logger = logging.getLogger(__name__)

BACKLOG = 2048
"""Connections that the kernel holds until they are accepted; uvicorn's own default."""

PORT_IN_USE: Final = "the port is in use"
"""The problem of an address that another program listens on."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Listen on every address that a name stands for: one for `127.0.0.1`, usually two for `localhost`.

    Clients that connect now wait until a server accepts them.

    Args:
        port: The port, or 0 for any free one (the same for all addresses).

    Raises:
        ListenError: The address is taken, not allowed, not there or not understood.
    """
    address = _authority(host, port)
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


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _resolve(host: str, port: int, address: str) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise ListenError(
            address, f"the host cannot be resolved: {reason}", "use an address of this machine, such as 127.0.0.1"
        ) from None
    return list(dict.fromkeys((family, sockaddr) for family, _, _, _, sockaddr in addresses))


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
            return ListenError(address, PORT_IN_USE, "stop the other program, or choose another --port")
        case errno.EACCES:
            return ListenError(address, "not permitted", "ports below 1024 are reserved: choose another --port")
        case errno.EADDRNOTAVAIL:
            return ListenError(address, "this machine has no such address", "use 127.0.0.1, or one that it has")
        case _:
            return ListenError(address, error.strerror or str(error))


class HttpServer:
    """Serves one ASGI application until it is stopped or cancelled. To be run once.

    Args:
        sockets: Listening sockets from `bind`; closed when the server ends.
        limits: Deadlines and sizes; the defaults, if not given.
        on_shutdown: Functions that take leave of clients while their connections still stand. Called in order, before
            all else when the server is about to end. They must not block.
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
        requests, limits = _Requests(app), limits or HttpLimits()
        config = ConnectionConfig(
            requests,
            limits,
            interface="asgi3",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=math.ceil(limits.keep_alive),
            # Only for what outlives even its dropped connection (see _Server.shutdown).
            timeout_graceful_shutdown=math.ceil(limits.shutdown_grace) + 1,
            backlog=BACKLOG,
        )
        self._server = _Server(config, on_shutdown, requests)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses and ports listened on."""
        return [sock.getsockname()[:2] for sock in self._sockets]

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop` is called or this is cancelled; then end every connection.

        Raises:
            BridgeError: The application's lifespan start-up failed.
        """
        if (events := sys.modules.get("sse_starlette.sse")) is not None:
            events.AppStatus.should_exit = False  # left on, it would end every event stream at its first byte
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
        self._server.stop()


class _Requests:
    """ASGI middleware that can end the requests that are open, as if the application had returned by itself.

    uvicorn would cancel their tasks, and log that as an error of the application. Each request has a task of its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._ended: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task not in self._ended:
                raise
            task.uncancel()

    def cancel(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        """End requests."""
        self._ended.update(tasks)
        for task in self._ended:
            task.cancel()


class _Server(uvicorn.Server):
    def __init__(
        self, config: ConnectionConfig, on_shutdown: Sequence[Callable[[], None]], requests: _Requests
    ) -> None:
        super().__init__(config)
        self._requests = requests
        self._grace = config.limits.shutdown_grace
        self._on_shutdown = on_shutdown
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self.on_started: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """End the server soon; from any thread and from a signal handler."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._stopped.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signal handlers alone: the program decides what a signal means."""
        yield

    async def main_loop(self) -> None:
        """Wait to be stopped. uvicorn's own loop wakes ten times a second, and renews the date of answers meanwhile."""
        if not self.should_exit:
            await self._stopped.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await super().startup(sockets)
        except SystemExit:
            raise BridgeError("the HTTP application failed to start; the log says why") from None
        self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Run the hooks, stop accepting, wait for open requests, and after the grace drop the rest.

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
            loop.call_later(self._grace + LISTENING, self._requests.cancel, self.server_state.tasks),
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
        for connection in list(cast("set[HttpConnection]", self.server_state.connections)):
            connection.drop()


async def serve_until_cancelled(
    make_app: Callable[[AccessPolicy], ASGIApp],
    policy_for: Callable[[str, int], AccessPolicy],
    host: str,
    port: int,
    *,
    on_shutdown: Callable[[], None],
    task_status: TaskStatus[list[str]],
) -> None:
    """Listen and serve; see `Bridge.serve_http`.

    Args:
        make_app: Returns the application that a policy guards.
        policy_for: Returns the policy of the address, with the port that is really bound.
        task_status: Started with the URLs that are served.
    """
    sockets = bind(host, port)
    try:
        policy = policy_for(host, sockets[0].getsockname()[1])
        server = HttpServer(make_app(policy), sockets=sockets, limits=policy.limits, on_shutdown=[on_shutdown])
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.run)
            task_status.started([f"http://{_authority(*address)}" for address in server.addresses])
    finally:
        for sock in sockets:
            sock.close()
