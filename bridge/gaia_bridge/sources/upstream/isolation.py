"""Connections to one server that clients do not share (`isolation: session`).

Every client with a session of its own has a connection, and with it a process, of its own, for as long as its session
lasts: what a server keeps per session, and whom it asks, is then as if the client were connected directly. What is
listed, and changes of it, still come from the connection that all share.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, field

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.contract import ClientRequest

__all__ = ["PrivateConnections", "Runs"]

logger = logging.getLogger(__name__)


class Runs(Protocol):
    """What serves one client."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Go on until cancelled."""
        ...


S = TypeVar("S", bound=Runs)


class _Private(Struct, Generic[S]):
    server: S
    started: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    requests: int = 0
    last_used: float = 0.0

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with self.scope:
            await self.server.run(task_status=task_status)


class PrivateConnections(Generic[S]):
    """What serves the clients that have something of their own. Only on the event loop.

    Args:
        make: Makes what serves one more client, whose first request it is told.
        limit: How many there may be at once.
    """

    def __init__(self, make: Callable[[ClientRequest], S], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._of: dict[Hashable, _Private[S]] = {}
        self._awaited: set[Hashable] = set()
        """Clients that will be forgotten when they leave; also those that were refused, and ask again and again."""

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[S]:
        return iter([private.server for private in self._of.values()])

    @asynccontextmanager
    async def serving(self, request: ClientRequest, tasks: TaskGroup) -> AsyncGenerator[S | None]:
        """What serves the client of a request; `None` if that is what serves all, because it has no session.

        One that nobody is using gives way to a new client, longest unused first; its own client gets a new one.

        Args:
            request: The request. What serves it does not give way before the end of the block.
            tasks: Where something new runs. It ends with the client's session.

        Raises:
            UpstreamError: There are as many as there may be, and all of them are used.
        """
        private = await self._of_client(request, tasks)
        if private is None:
            yield None
            return
        private.requests += 1
        try:
            await private.started.wait()
            yield private.server
        finally:
            private.requests -= 1
            private.last_used = anyio.current_time()

    async def _of_client(self, request: ClientRequest, tasks: TaskGroup) -> _Private[S] | None:
        client = request.client
        private = self._of.get(client)
        if private is None:
            if client not in self._awaited:
                if not request.when_client_leaves(lambda: self._forget(client)):
                    return None
                self._awaited.add(client)
            if len(self._of) >= self._limit:
                self._make_room()
            private = self._of[client] = _Private(self._make(request))
            private.requests += 1  # while it starts, it is not to give way
            try:
                await tasks.start(private.run)
            finally:
                private.requests -= 1
            private.started.set()
        return private

    def _make_room(self) -> None:
        idle = [client for client, private in self._of.items() if not private.requests]
        if not idle:
            raise UpstreamError(f"serves {self._limit} clients with a connection of their own, which is all it may")
        private = self._of.pop(min(idle, key=lambda client: self._of[client].last_used))
        logger.info("a connection of a client's own, which it was not using, gave way to another client's")
        private.scope.cancel()

    def there(self, request: ClientRequest) -> S | None:
        """What serves the client of a request already."""
        private = self._of.get(request.client)
        return None if private is None else private.server

    def _forget(self, client: Hashable) -> None:
        self._awaited.discard(client)
        if (private := self._of.pop(client, None)) is not None:
            private.scope.cancel()
            private.started.set()
