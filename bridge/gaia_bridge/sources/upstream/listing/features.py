"""The offer of one upstream server, from the cache and from its lists, and announcements of every change.

The lists are read on every connection, and when the server announces changes. Clients are notified at a bounded rate,
however often that happens.

Announcements refresh lists before their time, and never prolong it: servers of MCPServer (mcp 2.3) and of FastMCP
(4.2) declare that they announce changes, and announce none that their own code makes.

How long clients wait for the first lists is bounded, so that a server that hangs delays them once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from pathlib import Path
from typing import Final

import anyio
from msgspec.structs import replace

from gaia_bridge.client import Connection, Era
from gaia_bridge.client.transport import ConnectionLostError, UpstreamError
from gaia_bridge.client.transport_factory import secrets_of
from gaia_bridge.config import fingerprint
from gaia_bridge.contract import ChangeListener
from gaia_bridge.errors import ProtocolError
from gaia_bridge.json_schema.validation import OutputSchemas
from gaia_bridge.model import Change, ChangeKind, Notification, ServerFeatures, ServerSpec
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.protocol.kinds import KINDS, LIST_CHANGED, LISTS
from gaia_bridge.protocol.meta import forwarded_meta
from gaia_bridge.protocol.vocabulary import notification_problem
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache, Remembered
from gaia_bridge.sources.upstream.listing.feature_lists import (
    changes,
    has_list,
    introduced,
    no_features,
    with_lists_of,
    with_pages,
)
from gaia_bridge.sources.upstream.listing.tool_transforms import transformed
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON


class FirstLook:
    """Counts how long clients waited for one server, and may still wait. Use it only on the event loop."""

    def __init__(self, limits: UpstreamLimits) -> None:
        self._limits = limits
        self._first = 0.0
        self._met: set[Era] = set()
        self._began = self._took = 0.0

    async def within(self, wait: Callable[[], Awaitable[None]], *, listed_once: bool) -> None:
        """Wait for a condition. All waits together last at most `first_look` seconds, or `first_list`."""
        self._first = self._first or anyio.current_time()
        most = self._limits.first_list if listed_once else self._limits.first_look
        with anyio.CancelScope(deadline=self._first + max(most, self._limits.first_look)):
            await wait()

    def begins(self) -> None:
        """Note that an attempt to connect began."""
        self._began = anyio.current_time()

    def succeeded(self) -> None:
        """Note that the connection is open."""
        self._took = anyio.current_time() - self._began

    def second(self) -> float:
        """Return how long clients wait for a connection of their era, in seconds, by the duration of the last start."""
        return round(self._took * self._limits.second_start + self._limits.first_look, 2)

    def is_first_of(self, era: Era) -> bool:
        """Return whether this is the first client of an era."""
        first = era not in self._met
        self._met.add(era)
        return first


def outdated(
    features: ServerFeatures, read: Mapping[ChangeKind, float], now: float, usual: float, *, at_least: float
) -> set[ChangeKind]:
    """Return the lists that are to be read again.

    Args:
        usual: Seconds for which a list is trusted without a `ttlMs` of the server.
        at_least: The least seconds for which a list is trusted; older ones are read again if `usual` is not greater.
    """
    kinds: set[ChangeKind] = set()
    for listed in KINDS.values():
        if not has_list(features, listed):
            continue
        times = [page.more["ttlMs"] / 1000 for page in features.pages.get(listed.name, ()) if "ttlMs" in page.more]
        trusted = at_least if usual <= at_least else max(at_least, min(times, default=usual))
        if now - read.get(listed.change, -math.inf) >= trusted:
            kinds.add(listed.change)
    return kinds


logger = logging.getLogger(__name__)

_MOMENT: Final = 0.5
"""Seconds for which lists that were fresh are not looked at again: a look at those of 1,000 servers takes 30 ms."""


class FeatureTracker:
    """The lists of one server, and the listeners for their changes.

    Each list is read again as soon as it has to be, and not more often than every `refresh_interval`.

    Args:
        own: The id of this bridge; definitions that came through the bridge itself are not offered.
    """

    def __init__(self, spec: ServerSpec, limits: UpstreamLimits, cache: FeatureCache | None, own: str = "") -> None:
        self._spec = spec
        self._limits = limits
        self._cache = cache
        self._own = own
        self._fingerprint = fingerprint(spec)
        self.everything = replace(no_features(spec.name), is_known=False)
        """The whole offer, including definitions that the configuration does not permit."""
        self.outputs = OutputSchemas(f"upstream {spec.name!r}")
        self.published = transformed(self.everything, spec.options)
        self._learnt = self.everything  # read last
        self._in_era: dict[bool | None, ServerFeatures] = {}  # the last lists of each era; the modern one is `True`
        self._fetched: ServerFeatures | None = None  # read, but not published yet
        self._announced_at = -math.inf
        self._remembered: Remembered | None = None
        self.both: bool | None = None
        """Whether the server speaks both eras, as far as both were tried."""
        self._stale: set[ChangeKind] = set()
        self._announced_kinds: set[ChangeKind] = set()  # those of them that the server announced itself
        self._read_at: dict[ChangeKind, float] = {}
        self._looked_at: dict[ChangeKind, float] = {}  # when each was read because it was stale
        self._news_at: dict[ChangeKind, float] = {}  # when a change of each was announced
        self._other_is_new = False  # the other era's lists are newer than those of this one
        self._follows = False
        self._look_at = 0.0
        self._caught_up = anyio.Event()
        self._became_stale = anyio.Event()
        self._listeners: dict[object, ChangeListener] = {}

    @property
    def features(self) -> ServerFeatures:
        """The current offer."""
        return self.published.features

    @property
    def cache_folder(self) -> Path | None:
        """The folder where the lists are kept for the next run; `None` if they are not."""
        return None if self._cache is None else self._cache.folder

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change; return an idempotent function that stops it."""
        token = object()
        self._listeners[token] = listener

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def announce(self, change: Change) -> None:
        """Notify the listeners."""
        for listener in tuple(self._listeners.values()):
            listener(change)

    def tell(self, method: str, params: JSON, client: Hashable = None) -> None:
        """Pass a notification of the server that belongs to no request on to all clients, or to one alone."""
        if "_meta" in params:
            kept = forwarded_meta(params)
            others = {key: value for key, value in params.items() if key != "_meta"}
            params = others if kept is None else {**others, "_meta": kept}
        if (problem := notification_problem(method, params)) is None:
            self.announce(Change(ChangeKind.NOTIFIED, notification=Notification(method, params), client=client))
        else:
            logger.debug("upstream %r: %s is dropped: %s", self._spec.name, method, problem)

    def tell_alone(self, client: Hashable, change: Change) -> None:
        """Pass on a notification from a client's private connection, if it is for the client."""
        if change.kind is ChangeKind.NOTIFIED:
            self.announce(replace(change, client=client))

    def adjust(self, spec: ServerSpec) -> None:
        """Apply a new entry that leads to the same server."""
        self._spec = spec
        self._publish(self.everything)

    async def recall(self) -> Remembered | None:
        """Offer the cached lists of the last run. Returns the cached entry, if there is one."""
        if self._cache is None:
            return None
        self._remembered = await self._cache.load(self._fingerprint, self._spec.name)
        if self._remembered is None:
            return None
        self._learnt = self._remembered.features
        for features in filter(None, (self._learnt, self._learnt.other)):
            self._in_era[features.modern] = replace(features, other=None)
        self._publish(self._learnt)
        return self._remembered

    async def read(self, connection: Connection) -> None:
        """Read everything from a new connection, to be published once the server is ready.

        Raises:
            ConnectionLostError: The connection ended.
        """
        self._stale.clear()
        self._announced_kinds.clear()
        features = with_lists_of(introduced(self._spec.name, connection.handshake), self.everything)
        self._fetched = await self._read_lists(connection, features, LISTS)
        await self.remember(connection)

    def connected(self) -> None:
        """Publish the lists just read, as the server is ready, unless that would be too often."""
        if self._fetched is not None and anyio.current_time() >= self._announced_at + self._limits.announce_interval:
            self._publish_fetched()

    async def follow(self, connection: Connection) -> None:
        """Publish lists that had to wait, and every change from then on; however many announcements of the
        server come meanwhile, its lists are read once. Returns when the connection is lost.
        """
        if self._fetched is not None:
            await anyio.sleep_until(self._announced_at + self._limits.announce_interval)
            self._publish_fetched()
        self._follows = True
        try:
            while await self._caught_up_with(connection):
                pass
        finally:
            self._follows = False

    async def _caught_up_with(self, connection: Connection) -> bool:
        """Read stale lists as soon as they may be read again; return whether the connection still stands."""
        while not (stale := {kind for kind in self._stale if self._due_at(kind) <= anyio.current_time()}):
            self._became_stale = anyio.Event()
            pause = min(map(self._due_at, self._stale), default=math.inf) - anyio.current_time()
            with anyio.move_on_after(pause):
                await self._became_stale.wait()
        self._stale -= stale
        announced = self._announced_kinds & stale
        self._announced_kinds -= stale
        try:
            features = await self._read_lists(connection, self.everything, stale)
        except ConnectionLostError:
            return False
        self._looked_at |= dict.fromkeys(stale, anyio.current_time())
        self._publish(features, announced=announced)
        self._caught_up.set()
        self._caught_up = anyio.Event()
        await self.remember(connection)
        return True

    def _due_at(self, kind: ChangeKind) -> float:
        return self._looked_at.get(kind, -math.inf) + self._limits.refresh_interval

    def is_due(self, usual: float) -> bool:
        """Return whether `renew` has anything to do. After a look, lists are taken for fresh for a moment."""
        if not self._follows:
            return False
        now = (
            asyncio.get_running_loop().time()
        )  # a tenth of the time of `anyio.current_time`: there may be 1,000 servers
        if now < self._look_at:
            return False
        if outdated(self._learnt, self._read_at, now, usual, at_least=self._limits.refresh_interval):
            return True
        self._look_at = now + _MOMENT
        return False

    async def renew(self, usual: float, patience: float) -> None:
        """Read old lists again.

        Args:
            usual: Seconds for which lists are trusted without a `ttlMs`; 0 if a client needs an item that they lack.
            patience: Seconds to wait for them; later results are announced.
        """
        if not self._follows:
            return
        now, at_least = anyio.current_time(), self._limits.refresh_interval
        if old := outdated(self._learnt, self._read_at, now, usual, at_least=at_least):
            caught_up = self._caught_up
            self._stale |= old
            self._became_stale.set()
            with anyio.move_on_after(patience):
                await caught_up.wait()

    def notified(self, method: str, params: JSON) -> None:
        """Handle a notification of the server that belongs to no request; it may be about its lists."""
        if method == "notifications/resources/updated" and isinstance(uri := params.get("uri"), str):
            self.announce(Change(ChangeKind.RESOURCE_UPDATED, uri))
        elif (kind := LIST_CHANGED.get(method)) is not None:
            self.look_again(kind)

    def look_again(self, kind: ChangeKind) -> None:
        """Mark a list as stale, for a change that the server announced."""
        self._stale.add(kind)
        self._announced_kinds.add(kind)
        self._became_stale.set()

    def hurry(self) -> None:
        """Publish the next change at once, without the limit on the rate: its cause is no unstable server."""
        self._announced_at = -math.inf

    def withdraw(self) -> None:
        """Offer nothing."""
        self._fetched = None
        self._publish(no_features(self._spec.name))
        self._announced_at = -math.inf  # it only works again after a request to retry

    def end(self) -> None:
        """Offer nothing, and notify no listener: the caller knows, and the process may be ending."""
        self.everything = no_features(self._spec.name)
        self.published = transformed(self.everything, self._spec.options)

    async def _read_lists(
        self, connection: Connection, features: ServerFeatures, stale: Collection[ChangeKind]
    ) -> ServerFeatures:
        """Return the offer with the stale lists read again; a list that cannot be read stays as it was."""
        for listed in KINDS.values():
            if listed.change not in stale or not has_list(features, listed):
                continue
            try:
                features = with_pages(features, listed, await connection.list_pages(listed.name), self._own)
            except ConnectionLostError:
                raise
            except (ProtocolError, UpstreamError) as error:
                # Many servers have resources but no list of templates.
                expected = isinstance(error, ProtocolError) and error.code == METHOD_NOT_FOUND
                level = logging.DEBUG if expected else logging.WARNING
                logger.log(level, "upstream %r: its %ss: %s", self._spec.name, listed.name, printable(str(error)))
        self._learnt = features = self._beside(features)
        self._read_at |= dict.fromkeys(stale, anyio.current_time())
        self.outputs.replace(features.tools)  # valid at once, even if clients are notified of the new lists later
        return features

    def _beside(self, features: ServerFeatures) -> ServerFeatures:
        """Return the lists just read in one era, joined with the known ones of the other."""
        features = replace(features, other=None)
        before, other = self._in_era.get(features.modern), self._in_era.get(not features.modern)
        self._in_era[features.modern] = features
        is_older, self._other_is_new = not self._other_is_new, False
        if other is not None and before is not None and before != features and is_older:
            # The other era's lists are older than these: the server may be another by now, and have other lists.
            other = with_lists_of(other, features) if other.info.version == features.info.version else None
            self._in_era.pop(not features.modern)
        if other is not None:
            self._in_era[other.modern] = other
        return replace(features, other=other)

    def overheard(self, change: Change, features: ServerFeatures) -> None:
        """Handle a change on the connection of the other era.

        A list that changed there has mostly changed here as well, and the server announces it on both connections: the
        list is read here too, and both are announced together.
        """
        if change.kind.is_list and self._follows:
            self._in_era[features.modern] = replace(features, other=None)
            self._other_is_new = True
            if change.is_repeated:  # it is announced although nothing differs there, and perhaps nothing does here
                self._announced_kinds.add(change.kind)
            self._stale.add(change.kind)
            self._became_stale.set()
            return
        if change.kind.is_offer:
            self._update_other_era(features)
        if not change.kind.is_list:
            self.announce(change)

    def _update_other_era(self, features: ServerFeatures) -> None:
        self._in_era[features.modern] = features = replace(features, other=None)
        if self._learnt.modern is (not features.modern):
            self._learnt = replace(self._learnt, other=features)
        if self._fetched is not None:
            self._fetched = replace(self._fetched, other=features)
        if self.everything.modern is (not features.modern):
            self._publish(replace(self.everything, other=features))

    async def remember(self, connection: Connection) -> None:
        """Store the lists just learnt at once: their client may have gone, and the process may end at any moment."""
        remembered = Remembered(self._learnt, connection.handshake.next_era, self.both)
        if self._cache is not None and remembered != self._remembered:
            self._remembered = remembered
            await self._cache.store(self._fingerprint, remembered, secrets_of(self._spec))

    def _publish_fetched(self) -> None:
        assert self._fetched is not None
        features, self._fetched = self._fetched, None
        if self._publish(features):
            self._announced_at = anyio.current_time()

    def _publish(self, everything: ServerFeatures, announced: Collection[ChangeKind] = ()) -> bool:
        """Replace the offer. Returns whether it changed. Announcements of the server are passed on, too."""
        old, self.everything = self.features, everything
        self.published = transformed(everything, self._spec.options)
        for left_out in self.features.left_out:
            if left_out not in old.left_out:
                text = printable(f"{left_out.kind} {left_out.name!r} is left out: {left_out.reason}")
                logger.warning("upstream %r: %s", self._spec.name, text)
        news = changes(old, self.features)
        now = anyio.current_time()
        for change in news:
            if self._follows:
                self._news_at[change.kind] = now
            self.announce(change)
        for kind in announced:  # once, though a server tells of one change on the connections of both eras
            if now - self._news_at.get(kind, -math.inf) > 2 * self._limits.refresh_interval:
                self.announce(Change(kind, is_repeated=True))
        return bool(news)
