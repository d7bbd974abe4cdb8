"""Tells the clients of one endpoint what changed, in the way of their era, without one slow client delaying another.

2026-07-28 clients hold a `subscriptions/listen` stream each; legacy clients get notifications on their standing
stream. The SDK buffers little for a legacy client that does not read, so each has a task and a set of its own: what is
still to be told is told once, however often it happened.
"""

from __future__ import annotations

import logging

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import INVALID_PARAMS, SubscriptionFilter, SubscriptionsListenRequestParams, SubscriptionsListenResult

from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.client_request import Context, log_level_of
from gaia_bridge.inbound.interest import ResourceInterest
from gaia_bridge.inbound.introducing import capabilities_of, tells_of
from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.settings import SubscriptionLimits
from gaia_bridge.wire import LOG_MESSAGE, is_loud_enough

__all__ = ["ChangeFanout", "ChangeQueue"]

logger = logging.getLogger(__name__)

_MAX_WAITING = 1_000
"""Changes that wait for one receiver: a flood of updates must not add up to the whole memory (S-14)."""

_NEWS_OF = {
    "tools_list_changed": ("tools", "listChanged"),
    "prompts_list_changed": ("prompts", "listChanged"),
    "resources_list_changed": ("resources", "listChanged"),
    "resource_subscriptions": ("resources", "subscribe"),
}
"""For each field of a subscription, the capability that it means nothing without."""


class ChangeQueue:
    """Changes that wait to be told, each of them once, however often it happened. Only on the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[Change, None] = {}
        self._news = anyio.Event()

    def put(self, change: Change) -> None:
        """Tell of a change soon. Never blocks; beyond the limit, only changes of lists are still taken."""
        if len(self._waiting) >= _MAX_WAITING and not change.kind.is_list:
            logger.debug("dropped %s: too many wait", change)
            return
        self._waiting[change] = None
        self._news.set()

    async def get(self) -> Change:
        """Wait for the next change."""
        while not self._waiting:
            self._news = anyio.Event()
            await self._news.wait()
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change


class ChangeFanout:
    """All clients of one endpoint that want to hear of changes.

    Args:
        catalog: What changes.
        limits: How much one client may want, and how long it may take to accept what it is told.
    """

    def __init__(self, catalog: Catalog, limits: SubscriptionLimits) -> None:
        self._catalog = catalog
        self._limits = limits
        self._interest = ResourceInterest(catalog, self.publish)
        self._bus = InMemorySubscriptionBus()
        self._legacy: dict[Connection, _LegacyClient] = {}
        self._tasks: TaskGroup | None = None
        self._changes = ChangeQueue()
        self._streams = ListenHandler(self._bus)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Deliver until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._tasks.start(self._interest.run)
                task_status.started()
                while True:
                    change = await self._changes.get()
                    if (event := _event(change)) is not None:
                        await self._bus.publish(event)
                    for client in list(self._legacy.values()):
                        client.tell(change)
        finally:
            self._tasks = None

    def publish(self, change: Change) -> None:
        """Tell everyone who wants to know. Never blocks; only on the event loop."""
        self._changes.put(change)

    def close_streams(self) -> None:
        """End the open `subscriptions/listen` streams in good order; they would hold up a shutdown."""
        self._streams.close()

    async def listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Serve `subscriptions/listen`: confirmed when the sources were asked, or could not be in a short while.

        Raises:
            MCPError: It names more resources than one client may.
        """
        params = params.model_copy(update={"notifications": self._possible(params.notifications)})
        uris = tuple(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        if len(uris) > self._limits.resources:
            raise MCPError(INVALID_PARAMS, self._too_many)
        for uri in uris:
            self._interest.add(uri)
        try:
            await self._interest.ask_all(uris, self._limits.confirm_timeout)
            return await self._streams(ctx, params)
        finally:
            for uri in uris:
                self._interest.discard(uri)

    def _possible(self, wanted: SubscriptionFilter) -> SubscriptionFilter:
        """What of it there can be news of: a client that is promised more waits for nothing (server/subscriptions)."""
        told = capabilities_of(self._catalog, modern=True)
        anything = not self._catalog.merges  # one server may announce what it has not declared
        absent = [
            field
            for field, (kind, ability) in _NEWS_OF.items()
            if kind not in told or not (anything or told[kind].get(ability))
        ]
        return wanted.model_copy(update=dict.fromkeys(absent))

    def add_legacy(self, connection: Connection) -> None:
        """A legacy client finished its handshake. It is forgotten when its connection ends."""
        if self._tasks is None or connection in self._legacy:
            return
        client = _LegacyClient(connection, self._limits.notify_timeout, all_lists=not self._catalog.merges)
        self._legacy[connection] = client
        scope = anyio.CancelScope()
        self._tasks.start_soon(client.run, scope)

        def forget() -> None:
            self._legacy.pop(connection, None)
            scope.cancel()
            for uri in tuple(client.subscriptions):
                self._forget(client, uri)

        connection.exit_stack.callback(forget)

    async def subscribe(self, connection: Connection, uri: str) -> None:
        """A legacy client wants to hear of updates of `uri`. Whoever asks has finished the handshake, said or not.

        Raises:
            RequestError: The source of the resource refused, or did not answer.
            MCPError: The client hears of as many resources as one may.
        """
        self.add_legacy(connection)
        client = self._legacy.get(connection)
        if client is None or uri in client.subscriptions:
            return
        if len(client.subscriptions) >= self._limits.resources:
            raise MCPError(INVALID_PARAMS, self._too_many)
        client.subscriptions.add(uri)
        self._interest.add(uri)
        try:
            await self._interest.ask(uri)
        except BaseException:
            self._forget(client, uri)
            raise

    def unsubscribe(self, connection: Connection, uri: str) -> None:
        """A legacy client does not want to hear of updates of `uri` any more."""
        if (client := self._legacy.get(connection)) is not None:
            self._forget(client, uri)

    def _forget(self, client: _LegacyClient, uri: str) -> None:
        if uri in client.subscriptions:
            client.subscriptions.remove(uri)
            self._interest.discard(uri)

    @property
    def _too_many(self) -> str:
        return f"A client may hear of updates of {self._limits.resources} resources; unsubscribe from some"


class _LegacyClient:
    """A client of the handshake era.

    Args:
        connection: To it.
        patience: Seconds that one notification may take.
        all_lists: Whether it is told of changed lists that were not promised to it, as it would be by the server that
            it is told of: many declare no `listChanged` and announce all the same (FastMCP 1).
    """

    def __init__(self, connection: Connection, patience: float, *, all_lists: bool) -> None:
        self._connection = connection
        self._patience = patience
        self._all_lists = all_lists
        self._changes = ChangeQueue()
        self.subscriptions: set[str] = set()

    def tell(self, change: Change) -> None:
        if change.kind.is_list and not self._all_lists and not tells_of(self._connection, change.kind):
            return
        if change.kind is ChangeKind.RESOURCE_UPDATED and change.uri not in self.subscriptions:
            return
        if (notification := change.notification) is not None and notification.method == LOG_MESSAGE:
            if not is_loud_enough(notification.params.get("level"), log_level_of(self._connection)):
                return
        self._changes.put(change)

    async def run(self, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                change = await self._changes.get()
                with anyio.move_on_after(self._patience) as deadline:
                    await self._send(change)
                if deadline.cancelled_caught:
                    logger.warning("a client did not accept %s within %g s", change, self._patience)

    async def _send(self, change: Change) -> None:
        match change.kind:
            case ChangeKind.TOOLS:
                await self._connection.send_tool_list_changed()
            case ChangeKind.PROMPTS:
                await self._connection.send_prompt_list_changed()
            case ChangeKind.RESOURCES:
                await self._connection.send_resource_list_changed()
            case ChangeKind.RESOURCE_UPDATED:
                await self._connection.send_resource_updated(change.uri)
            case ChangeKind.INTRODUCTION:
                pass
            case ChangeKind.NOTIFIED:
                assert change.notification is not None
                await self._connection.notify(change.notification.method, change.notification.params)


def _event(change: Change) -> ServerEvent | None:
    """What clients of 2026-07-28 are told; there is nothing but changes that they can be told outside of a request."""
    match change.kind:
        case ChangeKind.TOOLS:
            return ToolsListChanged()
        case ChangeKind.PROMPTS:
            return PromptsListChanged()
        case ChangeKind.RESOURCES:
            return ResourcesListChanged()
        case ChangeKind.RESOURCE_UPDATED:
            return ResourceUpdated(change.uri)
        case ChangeKind.INTRODUCTION | ChangeKind.NOTIFIED:
            return None
