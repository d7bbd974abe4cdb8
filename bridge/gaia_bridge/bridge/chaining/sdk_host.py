"""Where a server object of the SDK, or of FastMCP, lives: one event loop and one lifespan, as in a process of its own.

What such a server opens in its lifespan (a pool of connections, a task that works off a queue) belongs to the event
loop that opened it. So all connections to the server are served on one loop, whatever their eras.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

import anyio

from gaia_bridge.runtime.agent_runner import AgentRunner, LoopHandle, Outcome, RunsCoroutines

Serve = Callable[[Any, Any], Awaitable[None]]
"""Serves one connection, over the streams to read from and to write to, until the first of them ends."""


class Session(Protocol):
    """A connection, from the side of the server."""

    async def serve(self, serve: Serve) -> None:
        """Be served. Runs on the server's loop; nothing but its being cancelled comes out of it."""
        ...

    def over(self, outcome: Outcome) -> None:
        """The server has ended with all its connections."""
        ...


class SdkHost:
    """Runs a server until the last of its connections has left. All methods are for the loop that made it.

    Args:
        server: The low-level server.
        name: What it is called, for threads.
        loop: The event loop that it was made on, where that is kept.
    """

    def __init__(self, server: Any, name: str, loop: RunsCoroutines | None = None) -> None:
        self._server = server
        self._runner = AgentRunner(name, 1, 0, loop)
        self._users: list[Session] = []
        self._sessions: asyncio.Queue[Session | None] = asyncio.Queue()
        self._early: list[Session | None] = []
        self._ours = LoopHandle()
        self._theirs: LoopHandle | None = None
        self._over = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def start(self) -> None:
        """Begin the server's lifespan."""
        self._runner.start(self._run, copy_context(), lambda outcome: self._ours.call_soon(partial(self._end, outcome)))

    def join(self, session: Session) -> None:
        """Have a connection served, as soon as the lifespan has begun."""
        self._users.append(session)
        self._put(session)

    async def leave(self, session: Session, seconds: float, *, stuck: bool) -> None:
        """A connection needs it no longer; with the last one, the lifespan ends.

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

    def _put(self, session: Session | None) -> None:
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
    """The lifespan of a server; one whose connections each have their own begins it with each."""
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
