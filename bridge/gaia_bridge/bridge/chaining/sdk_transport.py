"""A server object of the official SDK, or of FastMCP, as a server that is reached without a process and a socket.

It has one event loop and one lifespan, in a thread of its own, as in a process of its own: what it blocks is nobody
else's loop. Whatever such a server opens in its lifespan (a pool of connections, a task that works off a queue) belongs
to the event loop that opened it. So all connections to the server are served on one loop, whatever their eras.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import anyio

from gaia_bridge.calls.in_flight import SentRequests
from gaia_bridge.client.transport import ConnectionLostError, Link, Receiver, UpstreamError
from gaia_bridge.client.transports.json_rpc import cancellation, is_response
from gaia_bridge.runtime.agent_runner import AgentRunner, LoopHandle, Outcome, RunsCoroutines
from gaia_bridge.runtime.own_loop import own_loop_of
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON

Serve = Callable[[Any, Any], Awaitable[None]]
"""A function that serves one connection, over the streams to read and to write, until the first of them ends."""


class SdkHost:
    """Runs a low-level server until the last of its connections has left. All methods are for the loop that made it."""

    def __init__(self, server: Any, name: str, loop: RunsCoroutines | None = None) -> None:
        self._server = server
        self._runner = AgentRunner(name, 1, 0, loop)
        self._users: list[_SdkLink] = []
        self._sessions: asyncio.Queue[_SdkLink | None] = asyncio.Queue()
        self._early: list[_SdkLink | None] = []
        self._ours = LoopHandle()
        self._theirs: LoopHandle | None = None
        self._over = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the server has ended."""
        return self._over.is_set()

    def start(self) -> None:
        """Begin the server's lifespan."""
        self._runner.start(self._run, copy_context(), lambda outcome: self._ours.call_soon(partial(self._end, outcome)))

    def join(self, session: _SdkLink) -> None:
        """Serve a connection, as soon as the lifespan has begun."""
        self._users.append(session)
        self._put(session)

    async def leave(self, session: _SdkLink, seconds: float, *, stuck: bool) -> None:
        """Take leave of a connection; with the last one, the lifespan ends.

        Args:
            session: The connection.
            seconds: How long the end may take: by itself, and once it is cancelled.
            stuck: Whether the loop is known to be held, so that nothing ends by itself.
        """
        self._users.remove(session)
        if self._users:
            return
        self._put(None)
        if not stuck:
            with anyio.move_on_after(seconds):
                await self._over.wait()
        self._runner.close()
        await self._runner.wait_closed(seconds)

    def _put(self, session: _SdkLink | None) -> None:
        if self._theirs is None:
            self._early.append(session)
        else:
            self._theirs.call_soon(partial(self._sessions.put_nowait, session))

    def _open(self, theirs: LoopHandle) -> None:
        self._theirs = theirs
        for session in self._early:
            self._put(session)
        self._early.clear()

    def _end(self, outcome: Outcome) -> None:
        self._over.set()
        for session in tuple(self._users):
            session.over(outcome)

    async def _run(self) -> None:
        self._ours.call_soon(partial(self._open, LoopHandle()))
        # sessions are started in here, so that they have the context variables that the lifespan has set
        async with _lifespan(self._server) as serve, anyio.create_task_group() as tasks:
            while (session := await self._sessions.get()) is not None:
                tasks.start_soon(session.serve, serve)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _lifespan(server: Any) -> AsyncGenerator[Serve]:
    """Enter the lifespan of a server; one whose connections each have their own begins it with each."""
    from mcp.server.lowlevel import Server
    from mcp.server.runner import serve_dual_era_loop

    own: object = inspect.getattr_static(server, "run")
    if own is not Server.run:

        async def run(reading: Any, writing: Any) -> None:
            await server.run(reading, writing, server.create_initialization_options())

        yield run
        return
    async with server.lifespan(server) as state:

        async def serve(reading: Any, writing: Any) -> None:
            options = server.create_initialization_options()
            await serve_dual_era_loop(server, reading, writing, lifespan_state=state, init_options=options)

        yield serve


_LOWLEVEL: Final = ("_lowlevel_server", "_mcp_server")
"""The attributes in which `MCPServer` and `FastMCP` keep the server that runs on two streams. Neither is public."""

_ENDED: Final = "ended"


class SdkServerTransport:
    """Reaches a server object. Implements `gaia_bridge.client.transport.Transport`.

    Args:
        server: The server: `mcp.server.Server`, `mcp.server.mcpserver.MCPServer` or `fastmcp.FastMCP`.
        name: The server's name, for threads.
        limits: How long its clean-up may take.

    Raises:
        TypeError: It is none of these.
    """

    def __init__(self, server: object, name: str, limits: AgentLimits | None = None) -> None:
        lowlevel = _lowlevel(server)
        if lowlevel is None:
            raise TypeError(f"{server!r} is no MCP server; expected a FastMCP, an MCPServer, or a Server of the SDK")
        self._server: Any = lowlevel
        self._own_loop = own_loop_of(server)
        self._name = name
        self._limits = limits or AgentLimits()
        self._host: SdkHost | None = None

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link to the server, which runs as long as there is one. Each connection is a session of its own."""
        if self._host is None or self._host.is_over:
            loop = None if self._own_loop is None else self._own_loop.borrowed()
            self._host = SdkHost(self._server, self._name, loop)
            self._host.start()
        host, link = self._host, _SdkLink(receiver)
        host.join(link)
        try:
            await link.opened(self._limits.definitions_timeout)
            yield link
        finally:
            link.close()
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(self._limits.farewell) as waiting:
                    await link.ended.wait()
                stuck = waiting.cancelled_caught
                if stuck:
                    link.cancel()
                if self._host is host and (stuck or not link.began):  # who connects anew is given another
                    self._host = None
                await host.leave(link, self._limits.farewell, stuck=stuck)


class _SdkLink:
    """Implements `client.transport.Link`. `serve` and `_pump` run on the server's loop."""

    last_words = ""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._pending = SentRequests()
        self._ours = LoopHandle()
        self._theirs: LoopHandle | None = None
        self._scope = anyio.CancelScope()
        self._put: Callable[[Any], None] | None = None
        self._end: Callable[[], None] = lambda: None
        self._is_open = anyio.Event()
        self._is_closed = False
        self._reason: str | None = None
        self.ended = anyio.Event()

    async def serve(self, serve: Serve) -> None:
        """Serve the session until its input is closed. Raises nothing but its own cancellation."""
        to_server, reading = anyio.create_memory_object_stream[Any](math.inf)
        writing, from_server = anyio.create_memory_object_stream[Any](0)
        self._put, self._end = to_server.send_nowait, to_server.close
        self._theirs = LoopHandle()
        self._ours.call_soon(self._is_open.set)
        if self._is_closed:
            for stream in (to_server, reading, writing, from_server):
                stream.close()
            return
        error: BaseException | None = None
        try:
            with self._scope:
                async with to_server, reading, writing, from_server, anyio.create_task_group() as tasks:
                    tasks.start_soon(self._pump, from_server)
                    await serve(reading, writing)
                    tasks.cancel_scope.cancel()
        except asyncio.CancelledError:
            raise
        except BaseException as raised:  # noqa: B036 - a SystemExit of its author's code is the end of one session
            error = raised
        finally:
            self.over(Outcome(error=error))

    async def _pump(self, from_server: Any) -> None:
        async for item in from_server:
            message = item.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            during = getattr(item.metadata, "related_request_id", None)
            self._ours.call_soon(partial(self._take, message, during if type(during) is int else None))

    def over(self, outcome: Outcome) -> None:
        """Note that the connection ended, or the whole server; called in any thread."""
        error = outcome.error
        reason = _ENDED if error is None else f"{_ENDED}: {type(error).__name__}"
        self._ours.call_soon(partial(self._finish, reason))

    @property
    def began(self) -> bool:
        """Whether the server has begun to serve the session."""
        return self._is_open.is_set()

    async def opened(self, timeout: float) -> None:  # noqa: ASYNC109 - whose bound it is
        """Wait until the server serves the session.

        Raises:
            UpstreamError: It did not begin in time, or has ended.
        """
        with anyio.move_on_after(timeout):
            await self._is_open.wait()
        if self._reason is not None:
            raise UpstreamError(f"cannot be reached: it {self._reason}")
        if not self._is_open.is_set():
            raise UpstreamError(f"cannot be reached: it did not start within {timeout:g} s")

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Send a request and wait for its response."""
        number: int = message["id"]
        future = self._pending.add(number)
        try:
            self._send(message)
            return await future
        except asyncio.CancelledError:
            if message["method"] != "initialize" and not self._is_closed and self._reason is None:
                self._send(cancellation(number))
            raise
        finally:
            self._pending.forget(number)

    async def notify(self, message: JSON) -> None:
        """Send a notification or a response."""
        self._send(message)

    def agree(self, revision: str) -> None:
        """Do nothing: the wire is the same in every revision."""

    def close(self) -> None:
        """Close the server's input, which ends the session."""
        self._is_closed = True
        if self._theirs is not None:
            self._theirs.call_soon(self._end)
        else:
            self.ended.set()

    def cancel(self) -> None:
        """Cancel the session."""
        if self._theirs is not None:
            self._theirs.call_soon(self._scope.cancel)

    def _send(self, message: JSON) -> None:
        if self._reason is not None or self._theirs is None or self._put is None:
            raise ConnectionLostError(self._reason or _ENDED)
        self._theirs.call_soon(partial(self._put, _session_message(message)))

    def _take(self, message: JSON, during: int | None) -> None:
        if self._is_closed:
            return
        if is_response(message):
            self._pending.resolve(message.get("id"), message)
        else:
            self._receiver.message(message, during)

    def _finish(self, reason: str) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        self._is_open.set()
        self.ended.set()
        if not self._is_closed:
            self._receiver.ended(reason)
        self._pending.fail(ConnectionLostError(f"{reason} before it answered; whether it did the work is unknown"))


def _lowlevel(value: object) -> Any:
    if isinstance(value, type):
        return None
    for candidate in (value, *(getattr(value, name, None) for name in _LOWLEVEL)):
        if candidate is not None and all(
            callable(getattr(candidate, name, None)) for name in ("run", "create_initialization_options")
        ):
            return candidate
    return None


def _session_message(message: JSON) -> Any:
    """Return a message as an object of the SDK, which is loaded already where there is a server object."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    return SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
