"""Notifies the clients of one endpoint of changes, in the way of their era, without one slow client delaying others.

Clients of 2026-07-28 hold a `subscriptions/listen` stream each; those of the handshake era get notifications on their
standing stream. A change that waits to be sent is sent once, however often it happened.

Each source is asked once for the resources that any number of clients want to hear of, and told when the last of them
is gone. A resource that appears later, or that another source offers after a change of the configuration, is asked for
then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, field

from gaia_bridge.contract import Source
from gaia_bridge.errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, RequestError, ResourceNotFoundError
from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.protocol import meta
from gaia_bridge.protocol.earlier_revisions import has_notification
from gaia_bridge.protocol.kinds import LISTEN_FLAGS, list_changed
from gaia_bridge.protocol.messages import encoded_notification
from gaia_bridge.protocol.meta import TASK_ID, TASK_STATUS
from gaia_bridge.protocol.vocabulary import LOG_MESSAGE, is_loud_enough
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.server.introduction import capabilities_of, tells_of
from gaia_bridge.settings import SubscriptionLimits
from gaia_bridge.sources.change_queue import ChangeQueue
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)

_URIS: Final = "resourceSubscriptions"


class Subscribers:
    """All clients of one endpoint that want to be notified of changes."""

    def __init__(self, catalog: Catalog, limits: SubscriptionLimits) -> None:
        self._catalog = catalog
        self._limits = limits
        self.interest = ResourceInterest(catalog, self.publish)
        """The resources that clients want."""
        self._legacy: dict[ClientConnection, _LegacyClient] = {}
        self._streams: set[_Stream] = set()

    def publish(self, change: Change) -> None:
        """Notify every client that wants this change. Never blocks; only on the event loop."""
        for stream in self._streams:
            stream.tell(change)
        for client in self._legacy.values():
            client.tell(change)

    def close_streams(self) -> None:
        """End the open `subscriptions/listen` streams in good order; they would hold up a shutdown."""
        for stream in self._streams:
            stream.close()

    async def listen(self, call: Call) -> JSON:
        """Serve `subscriptions/listen`: confirmed when the sources were asked, or could not be in a short while.

        Raises:
            ProtocolError: It names more resources than one client may, or there are too many streams.
        """
        wanted = self._possible(call.params["notifications"])
        uris = tuple(wanted.get(_URIS, ()))
        if len(uris) > self._limits.resources:
            raise ProtocolError(INVALID_PARAMS, self._too_many)
        if len(self._streams) >= self._limits.streams:
            problem = f"{self._limits.streams} clients are listening, which is as many as may; try again later"
            raise ProtocolError(INTERNAL_ERROR, problem)
        stamp: JSON = {meta.SUBSCRIPTION_ID_KEY: call.id}
        stream = _Stream(wanted)
        for uri in uris:
            self.interest.add(uri)
        self._streams.add(stream)
        try:
            await self.interest.ask_all(uris, self._limits.confirm_timeout)
            confirmed = {"notifications": wanted, "_meta": stamp}
            await call.channel.send(encoded_notification("notifications/subscriptions/acknowledged", confirmed))
            while (change := await stream.next()) is not None:
                method, params = _notification(change)
                await call.channel.send(encoded_notification(method, {**(params or {}), "_meta": stamp}))
        finally:
            self._streams.discard(stream)
            for uri in uris:
                self.interest.discard(uri)
        return {"_meta": stamp}

    def _possible(self, wanted: Mapping[str, Any]) -> JSON:
        """Return the part that can ever change: a client that is promised more waits in vain (server/subscriptions)."""
        declared = capabilities_of(self._catalog, modern=True)
        anything = not self._catalog.merges  # one server may announce what it has not declared

        def can(capability: str, ability: str) -> bool:
            return capability in declared and (anything or bool(declared[capability].get(ability)))

        flags = [flag for flag in LISTEN_FLAGS if wanted.get(flag) is True]
        possible: JSON = {flag: True for flag in flags if can(LISTEN_FLAGS[flag].value, "listChanged")}
        if (uris := wanted.get(_URIS)) and can("resources", "subscribe"):
            possible[_URIS] = list(dict.fromkeys(uris))
        return possible

    def add_legacy(self, connection: ClientConnection) -> None:
        """Add a client of the handshake era, after its handshake. The end of its connection removes it."""
        if connection in self._legacy:
            return
        client = _LegacyClient(connection, self._limits.notify_timeout, all_lists=not self._catalog.merges)
        self._legacy[connection] = client

        def forget() -> None:
            self._legacy.pop(connection, None)
            client.close()
            for uri in tuple(client.subscriptions):
                self._forget(client, uri)

        connection.when_closed(forget)

    async def subscribe(self, connection: ClientConnection, uri: str) -> None:
        """Notify a legacy client of updates of `uri`. A client that asks has finished the handshake, announced or not.

        Raises:
            RequestError: The source of the resource refused, or did not answer; or the client hears of as many
                resources as one may.
        """
        self.add_legacy(connection)
        client = self._legacy.get(connection)
        if client is None or uri in client.subscriptions:
            return
        if len(client.subscriptions) >= self._limits.resources:
            raise ProtocolError(INVALID_PARAMS, self._too_many)
        client.subscriptions.add(uri)
        self.interest.add(uri)
        try:
            await self.interest.ask(uri)
        except BaseException:
            self._forget(client, uri)
            raise

    def made_task(self, connection: ClientConnection, task: str) -> None:
        """Note that a legacy client made a task, which no other client is notified of, can ask for, or cancels."""
        self.add_legacy(connection)
        if (client := self._legacy.get(connection)) is not None:
            client.tasks[task] = None
            if len(client.tasks) > self._limits.tasks:
                del client.tasks[next(iter(client.tasks))]

    def has_made(self, connection: ClientConnection, task: object) -> bool:
        """Return whether a legacy client made a task; no other may see it (basic/utilities/tasks, "Task Isolation")."""
        client = self._legacy.get(connection)
        return client is not None and isinstance(task, str) and task in client.tasks

    def unsubscribe(self, connection: ClientConnection, uri: str) -> None:
        """Stop notifying a legacy client of updates of `uri`."""
        if (client := self._legacy.get(connection)) is not None:
            self._forget(client, uri)

    def _forget(self, client: _LegacyClient, uri: str) -> None:
        if uri in client.subscriptions:
            client.subscriptions.remove(uri)
            self.interest.discard(uri)

    @property
    def _too_many(self) -> str:
        return f"A client may hear of updates of {self._limits.resources} resources; unsubscribe from some"


class _Stream:
    """The changes for one `subscriptions/listen` request."""

    def __init__(self, wanted: JSON) -> None:
        self._kinds = {kind for flag, kind in LISTEN_FLAGS.items() if wanted.get(flag)}
        self._uris = frozenset(wanted.get(_URIS, ()))
        self._changes = ChangeQueue()
        self._news = asyncio.Event()
        self._closed = False

    def tell(self, change: Change) -> None:
        """Queue a change, if the request wants it."""
        if change.kind in self._kinds or (change.kind is ChangeKind.RESOURCE_UPDATED and change.uri in self._uris):
            self._changes.put(change)
            self._news.set()

    def close(self) -> None:
        """End the stream after its queued changes."""
        self._closed = True
        self._news.set()

    async def next(self) -> Change | None:
        """Wait for the next change; `None` at the end."""
        while (change := self._changes.take()) is None and not self._closed:
            self._news.clear()
            await self._news.wait()
        return change


class _LegacyClient:
    """A client of the handshake era.

    Args:
        patience: Seconds that one notification may take.
        all_lists: Whether it is notified of changed lists that were not promised to it, as its server itself would
            do: many declare no `listChanged` and announce all the same (FastMCP 1).
    """

    def __init__(self, connection: ClientConnection, patience: float, *, all_lists: bool) -> None:
        self._connection = connection
        self._patience = patience
        self._all_lists = all_lists
        self._changes = ChangeQueue()
        self._telling: asyncio.Task[None] | None = None
        self.subscriptions: set[str] = set()
        self.tasks: dict[str, None] = {}
        """The tasks that it made, the oldest first."""

    def tell(self, change: Change) -> None:
        """Send a change, if the client wants it."""
        if not self._wants(change):
            return
        self._changes.put(change)
        if self._telling is None:  # most clients never hear of anything, so none has a task for it
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    def close(self) -> None:
        """Stop sending: the client is gone."""
        if self._telling is not None:
            self._telling.cancel()

    def _wants(self, change: Change) -> bool:
        if change.kind is ChangeKind.INTRODUCTION or change.client not in (None, self._connection):
            return False
        if change.kind.is_list and not self._all_lists and not tells_of(self._connection, change.kind):
            return False
        if change.kind is ChangeKind.RESOURCE_UPDATED:
            return change.uri in self.subscriptions
        notification = change.notification
        if notification is None:
            return True
        if notification.method == TASK_STATUS and notification.params[TASK_ID] not in self.tasks:
            return False
        if notification.method != LOG_MESSAGE:
            return has_notification(self._connection.revision, notification.method)
        return is_loud_enough(notification.params.get("level"), self._connection.log_level)

    async def _tell(self) -> None:
        try:
            while (change := self._changes.take()) is not None:
                with anyio.move_on_after(self._patience) as deadline:
                    await self._connection.standing.send(encoded_notification(*_notification(change)))
                if deadline.cancelled_caught:
                    logger.warning("a client did not accept %s within %g s", change, self._patience)
        finally:
            self._telling = None


def _notification(change: Change) -> tuple[str, JSON | None]:
    if (notification := change.notification) is not None:
        return notification.method, dict(notification.params)
    if change.kind is ChangeKind.RESOURCE_UPDATED:
        return "notifications/resources/updated", {"uri": change.uri}
    return list_changed(change.kind), None


class _WatchedResource(Struct, eq=False):
    """The state of one resource whose updates clients want."""

    clients: int = 0
    asked: tuple[Source, str] | None = None
    """The source that was asked, and the source's own URI for the resource."""
    asking: anyio.Lock = field(default_factory=anyio.Lock)


class ResourceInterest:
    """Counts which clients want which resources, and subscribes at the sources. Only on the event loop.

    Args:
        announce: Called with the update of a resource whose source was asked so late that updates may have been
            missed.
    """

    def __init__(self, catalog: Catalog, announce: Callable[[Change], None]) -> None:
        self._catalog = catalog
        self._announce = announce
        self._wanted: dict[str, _WatchedResource] = {}
        self._tasks: TaskGroup | None = None
        self._given_up: set[_WatchedResource] = set()
        self._no_more = anyio.Event()
        catalog.listen(self._on_change)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the sources informed until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    def add(self, uri: str) -> None:
        """Count one more client that wants updates of `uri`; goes with `ask`, and with one `discard`."""
        self._wanted.setdefault(uri, _WatchedResource()).clients += 1

    def discard(self, uri: str) -> None:
        """Count one client fewer. Never blocks: the source is notified in the background."""
        wanted = self._wanted[uri]
        wanted.clients -= 1
        if not wanted.clients:
            del self._wanted[uri]
            if self._tasks is not None:
                self._given_up.add(wanted)
                self._tasks.start_soon(self._give_up, wanted)

    async def given_up(self) -> None:
        """Wait until every source knows which resources nobody wants any more. Bounded by the sources' deadlines."""
        while self._given_up:
            self._no_more = anyio.Event()
            await self._no_more.wait()

    async def ask(self, uri: str) -> None:
        """Subscribe to `uri` at its source. Bounded by the source's own deadlines.

        Raises:
            RequestError: The source refused, or did not answer.
        """
        wanted = self._wanted.get(uri)
        if wanted is None:
            return
        async with wanted.asking:
            target = self._find(uri)
            if self._wanted.get(uri) is not wanted or target == wanted.asked:
                return
            before, wanted.asked = wanted.asked, None
            if before is not None:
                await before[0].unsubscribe(before[1])
            if target is not None:
                await target[0].subscribe(target[1])
                wanted.asked = target

    async def ask_all(self, uris: Iterable[str], patience: float) -> None:
        """Do the same for many resources at once. After `patience` seconds, the rest goes on in the background.

        Refusals are logged: a `subscriptions/listen` request has no room for them.
        """
        if self._tasks is None:
            return
        waiting, done = set(uris), anyio.Event()
        late = False

        async def ask(uri: str) -> None:
            if await self._try_ask(uri) and late:
                self._announce(Change(ChangeKind.RESOURCE_UPDATED, uri))
            waiting.discard(uri)
            if not waiting:
                done.set()

        for uri in tuple(waiting):
            self._tasks.start_soon(ask, uri)
        if waiting:
            with anyio.move_on_after(patience):
                await done.wait()
            late = True

    async def _try_ask(self, uri: str) -> bool:
        try:
            await self.ask(uri)
        except RequestError as error:
            logger.warning("no updates of %s: %s", printable(uri), error)
            return False
        return True

    async def _give_up(self, wanted: _WatchedResource) -> None:
        try:
            async with wanted.asking:
                if wanted.asked is not None:
                    source, uri = wanted.asked
                    await source.unsubscribe(uri)
        finally:
            self._given_up.discard(wanted)
            self._no_more.set()

    def _on_change(self, change: Change) -> None:
        if change.kind is not ChangeKind.RESOURCES or self._tasks is None:
            return
        for uri, wanted in self._wanted.items():
            if self._find(uri) != wanted.asked:
                self._tasks.start_soon(self._try_ask, uri)

    def _find(self, uri: str) -> tuple[Source, str] | None:
        try:
            return self._catalog.resource(uri)
        except ResourceNotFoundError:
            return None
