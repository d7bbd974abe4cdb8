"""The resources of one upstream server that clients subscribed to, and the bridge's subscriptions at the server."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from gaia_bridge.client import Connection
from gaia_bridge.client.transport import ConnectionLostError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.sources.upstream.supervisor import Supervisor
from gaia_bridge.text.escaping import printable

logger = logging.getLogger(__name__)


class ResourceSubscriptions:
    """The subscriptions to resources of one server. Use it only on the event loop."""

    def __init__(self, upstream: str, supervisor: Supervisor, patience: float) -> None:
        self._upstream = upstream
        self._supervisor = supervisor
        self._patience = patience
        self._interested = Counter[str]()
        self._subscribed: set[str] = set()

    def __len__(self) -> int:
        return len(self._subscribed)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the resources that the bridge subscribed to at the server."""
        return iter(tuple(self._subscribed))

    async def add(self, uri: str) -> None:
        """Subscribe to updates of `uri`. Does nothing if the server has no subscriptions.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
            UpstreamError: The server did not answer.
        """
        self._interested[uri] += 1
        try:
            await self._subscribe(uri)
        except BaseException:
            self._lose(uri)
            raise

    async def discard(self, uri: str, connection: Connection | None) -> None:
        """End a subscription; the last one also ends that of the server. Never raises."""
        if not self._lose(uri) or connection is None or not connection.may_subscribe:
            return
        try:
            await connection.unsubscribe(uri)
            if uri in self._interested:  # a client subscribed while the server was asked to end the subscription
                await self._subscribe(uri)
        except (ProtocolError, UpstreamError) as error:
            logger.debug("upstream %r: unsubscribing: %s", self._upstream, error)

    async def renew(self, connection: Connection) -> None:
        """Renew the subscriptions of clients on a new connection.

        Raises:
            ConnectionLostError: The connection ended.
        """
        for uri in tuple(self._interested) if connection.may_subscribe else ():
            try:
                await connection.subscribe(uri)
                self._note(uri)
            except ConnectionLostError:
                raise
            except (ProtocolError, UpstreamError) as error:
                self._subscribed.discard(uri)
                logger.warning("upstream %r: no updates of %s any more: %s", self._upstream, printable(uri), error)

    async def _subscribe(self, uri: str) -> None:
        with self._supervisor.using:
            connection = await self._supervisor.connection(self._patience)
            if connection.may_subscribe:
                await connection.subscribe(uri)
                self._note(uri)

    def _note(self, uri: str) -> None:
        if uri in self._interested:
            self._subscribed.add(uri)

    def _lose(self, uri: str) -> bool:
        """Count one subscriber less. Returns whether it was the last one and the server knows the subscription."""
        self._interested[uri] -= 1
        if self._interested[uri] > 0:
            return False
        del self._interested[uri]
        asked = uri in self._subscribed
        self._subscribed.discard(uri)
        return asked
