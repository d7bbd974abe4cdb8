"""Connections to one server that clients do not share (`isolation: session`).

Every client that has a session gets its own connection to the server, and with it its own process, until the session
ends. What the server keeps for a session, and whom it asks, is then as if the client were connected directly. Lists and
their changes still come from the connection that all clients share.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.contract import ClientRequest
from gaia_bridge.sources.upstream.supervised_connection import SupervisedConnection

logger = logging.getLogger(__name__)


class _Private(Struct):
    """A private connection. Implements `TaskStatus`: its start goes on if the request that caused it is cancelled."""

    server: SupervisedConnection
    is_started: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    requests: int = 0

    async def run(self) -> None:
        with self.scope:
            await self.server.run(task_status=self)

    def started(self, value: None = None) -> None:
        self.is_started.set()

    def end(self) -> None:
        self.scope.cancel()
        self.is_started.set()


class PrivateConnections:
    """The private connections of clients. Use it only on the event loop."""

    def __init__(self, make: Callable[[ClientRequest], SupervisedConnection], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._of: dict[Hashable, _Private] = {}
        """The connections by their clients, the last used one last."""
        self._awaited: set[Hashable] = set()
        """Clients that are removed when their session ends; also refused ones that keep asking."""

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[SupervisedConnection]:
        return iter([private.server for private in self._of.values()])

    @asynccontextmanager
    async def serving(self, request: ClientRequest, tasks: TaskGroup) -> AsyncGenerator[SupervisedConnection | None]:
        """Yield the private connection for a request; `None` if its client has no session and so uses the shared one.

        When the limit is reached, the connection that was idle for longest is closed; its client gets a new one later.

        Args:
            request: The request. Its connection does not give way before the end of the block.
            tasks: The task group of a new connection, which ends with the client's session.

        Raises:
            UpstreamError: The limit is reached, and all connections are in use.
        """
        private = self._of_client(request, tasks)
        if private is None:
            yield None
            return
        private.requests += 1
        try:
            await private.is_started.wait()
            yield private.server
        finally:
            private.requests -= 1
            if self._of.get(request.client) is private:
                self._of[request.client] = self._of.pop(request.client)

    def _of_client(self, request: ClientRequest, tasks: TaskGroup) -> _Private | None:
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
            tasks.start_soon(private.run)
        return private

    def _make_room(self) -> None:
        connections = self._of.items()
        idle = next((client for client, each in connections if not (each.requests or each.server.is_awaited)), None)
        if idle is None:
            raise UpstreamError(f"serves {self._limit} clients with a connection of their own, which is all it may")
        private = self._of.pop(idle)
        logger.info("a connection of a client's own, which it was not using, gave way to another client's")
        private.end()

    def there(self, request: ClientRequest) -> SupervisedConnection | None:
        """Return the connection that the client of a request has already."""
        private = self._of.get(request.client)
        return None if private is None else private.server

    def _forget(self, client: Hashable) -> None:
        self._awaited.discard(client)
        if (private := self._of.pop(client, None)) is not None:
            private.end()
