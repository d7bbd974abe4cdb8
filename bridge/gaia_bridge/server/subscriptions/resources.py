"""Which resources the clients of one endpoint want to hear updates of, and the sources that were asked to tell of them.

Each source is asked once for what any number of clients want, and told when the last of them is gone. A resource that
appears later, or that another source offers after a change of the configuration, is asked for then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, field

from gaia_bridge.contract import Source
from gaia_bridge.errors import RequestError, ResourceNotFoundError
from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.text.escaping import printable

logger = logging.getLogger(__name__)


class _Wanted(Struct, eq=False):
    """One resource that somebody wants to hear of."""

    clients: int = 0
    asked: tuple[Source, str] | None = None
    """Who was asked, and what it calls the resource."""
    asking: anyio.Lock = field(default_factory=anyio.Lock)


class ResourceInterest:
    """Counts who wants what, and keeps the sources informed. Only on the event loop.

    Args:
        catalog: Knows which source has a resource.
        announce: Called with the update of a resource that a source was asked for too late to be sure that it told of
            everything since.
    """

    def __init__(self, catalog: Catalog, announce: Callable[[Change], None]) -> None:
        self._catalog = catalog
        self._announce = announce
        self._wanted: dict[str, _Wanted] = {}
        self._tasks: TaskGroup | None = None
        self._given_up: set[_Wanted] = set()
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
        """One more client wants to hear of updates of `uri`; goes with `ask`, and with one `discard`."""
        self._wanted.setdefault(uri, _Wanted()).clients += 1

    def discard(self, uri: str) -> None:
        """One client fewer wants that. Never blocks: the source is told in the background."""
        wanted = self._wanted[uri]
        wanted.clients -= 1
        if not wanted.clients:
            del self._wanted[uri]
            if self._tasks is not None:
                self._given_up.add(wanted)
                self._tasks.start_soon(self._give_up, wanted)

    async def given_up(self) -> None:
        """Wait until every source knows what nobody wants of it any more. Bounded by the sources' own deadlines."""
        while self._given_up:
            self._no_more = anyio.Event()
            await self._no_more.wait()

    async def ask(self, uri: str) -> None:
        """See to it that the source of `uri` tells of its updates. Bounded by the source's own deadlines.

        Raises:
            RequestError: The source refused, or did not answer.
        """
        wanted = self._wanted.get(uri)
        if wanted is None:
            return
        async with wanted.asking:
            found = self._find(uri)
            if self._wanted.get(uri) is not wanted or found == wanted.asked:
                return
            before, wanted.asked = wanted.asked, None
            if before is not None:
                await _give_up(before)
            if found is not None:
                source, original = found
                await source.subscribe(original)
                wanted.asked = found

    async def ask_all(self, uris: Iterable[str], patience: float) -> None:
        """Do the same for many at once. What takes longer than `patience` seconds goes on in the background.

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

    async def _give_up(self, wanted: _Wanted) -> None:
        try:
            async with wanted.asking:
                if wanted.asked is not None:
                    await _give_up(wanted.asked)
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


async def _give_up(asked: tuple[Source, str]) -> None:
    source, uri = asked
    await source.unsubscribe(uri)
