"""The eras of one server, and the second connection that serves clients of the other era.

A server of both eras may have features in only one of them, such as to ask its client during
a call. So a client gets a connection of its own era if the server has it. There is at most one for each; the
second is opened when the first client needs it, and its failures are its own: the first one serves all the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final, Generic, Literal, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.client import Era, ServerHandshake
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.contract import ChangeListener, ClientRequest
from gaia_bridge.model import Change, ChangeKind, ServerFeatures, ServerOptions, SourceState, SourceStatus
from gaia_bridge.sources.upstream.isolation import Runs
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)

OPTION_OF: Final[Mapping[Era, Literal["handshake", "2026-07-28"]]] = {Era.LEGACY: "handshake", Era.MODERN: "2026-07-28"}
"""The names of the eras in the configuration (`ServerOptions.era`)."""
_THERE: Final = (SourceState.READY, SourceState.DEGRADED)
_DOWN: Final = (SourceState.BACKOFF, SourceState.FAILED)


def era_of(request: ClientRequest) -> Era:
    """Return the era of a client."""
    return Era.MODERN if request.modern else Era.LEGACY


def only_era(options: ServerOptions) -> Era | None:
    """Return the only era that an entry allows; `None` for both."""
    return next((era for era, name in OPTION_OF.items() if name == options.era), None)


class KnownEras:
    """The known facts about the eras of one server."""

    def __init__(self, options: ServerOptions, first: Era | None = None) -> None:
        self.only = only_era(options)
        """The only era that the configuration allows, if it names one."""
        self.first = self.only or first
        """The era to try first; `None` where nothing is known."""
        self._has: dict[Era, bool] = {}

    @property
    def both(self) -> bool | None:
        """Whether the server speaks both eras; `None` if that is not known yet."""
        facts = [self._has.get(era) for era in Era]
        return False if False in facts else None if None in facts else True

    def recall(self, era: Era, both: bool | None) -> None:
        """Use the facts of the last run: the era, and whether the server has both."""
        if self.only is None:
            self.first = era
            self._has = {Era.LEGACY: True, Era.MODERN: True} if both else {era: True}
            if both is False or era is Era.LEGACY:  # the modern one is always asked for first
                self._has[_other(era)] = bool(both)

    def may_have(self, era: Era) -> bool:
        """Return whether the server speaks an era, or may do so."""
        return self._has.get(era) is not False

    def prefer(self, era: Era) -> None:
        """Try this era first with the next connection, if the server has both."""
        if self.first is not era and self.both and self.only is None:
            self.first = era

    def turn_to(self, era: Era) -> None:
        """Try this era first with the next connection."""
        self.first = self.only or era

    def begin(self) -> Era | None:
        """Return the era to try first now; it is forgotten unless `record` confirms it."""
        era, self.first = self.first, self.only
        return era

    def record(self, handshake: ServerHandshake, tried: Era | None) -> None:
        """Record the eras that an opened connection shows."""
        if self.only is not None:
            return
        self.first = handshake.next_era
        self._has[handshake.era] = True
        if handshake.also_modern:
            self._has[Era.MODERN] = True
        elif (tried or Era.MODERN) is not handshake.era:
            self._has[_other(handshake.era)] = False

    def note(self, era: Era, *, had: bool) -> None:
        """Record whether the server speaks an era."""
        self._has[era] = had


def _other(era: Era) -> Era:
    return Era.LEGACY if era is Era.MODERN else Era.MODERN


class OneEra(Runs, Protocol):
    """A connection that serves the clients of one era."""

    @property
    def status(self) -> SourceStatus: ...

    @property
    def details(self) -> JSON: ...

    @property
    def refused(self) -> bool: ...

    @property
    def everything(self) -> ServerFeatures: ...

    async def connected(self) -> ServerHandshake: ...

    def listen(self, listener: ChangeListener) -> Callable[[], None]: ...


S = TypeVar("S", bound=OneEra)


class OtherEras(Generic[S]):
    """The connections beside the shared one, for clients of the other era. Use only on the event loop.

    Args:
        patience: Seconds that a client waits for another connection before the existing one serves it.
        make: Makes the connection for one era; `None` if there shall be none.
        heard: Called with changes that the server announces on such a connection.
        learnt: Called when it becomes known whether the server has both eras.
        yields: Ends the shared connection if it was not used yet, and returns whether it did. `None` where that saves
            nothing: over HTTP a second connection needs no second process.
    """

    def __init__(
        self,
        upstream: str,
        eras: KnownEras,
        patience: Callable[[], float],
        make: Callable[[Era], S] | None,
        heard: Callable[[S, Change], None],
        learnt: Callable[[], None],
        yields: Callable[[], bool] | None,
    ) -> None:
        self._upstream = upstream
        self._eras = eras
        self._patience = patience
        self._make = make if eras.only is None else None
        self._heard = heard
        self._learnt = learnt
        self._yields = yields
        self._yielded = False
        self.turning: anyio.Event | None = None
        """Set at the end; there while the shared connection is opened anew in the era of the first client."""
        self._of: dict[Era, S] = {}
        self._proven: set[Era] = set()
        self._failed: set[Era] = set()
        self._reported: set[Era] = set()

    @property
    def details(self) -> list[JSON]:
        """The states of the connections, for status reports."""
        return [
            {
                "era": OPTION_OF[era],
                "protocolVersion": other.details["protocolVersion"],
                "state": other.status.state.value,
                "reason": other.status.reason,
            }
            for era, other in self
        ]

    def __iter__(self) -> Iterator[tuple[Era, S]]:
        return iter(tuple(self._of.items()))  # a copy: connections may be added while a caller waits for one

    async def of(
        self, request: ClientRequest, shared: Callable[[], Awaitable[ServerHandshake]], tasks: TaskGroup
    ) -> S | None:
        """Return the connection that serves the client of a request; `None` for the shared connection.

        Raises:
            UpstreamError: There is no shared connection.
        """
        wanted = era_of(request)
        if self._make is None or not self._eras.may_have(wanted) or _goes_on(request):
            return None
        other = self._of.get(wanted)
        if other is not None and other.status.state in _THERE and wanted in self._proven:
            return other
        if self.turning is not None:
            await self.turning.wait()
        if self._yields is not None:
            self._eras.prefer(wanted)
        there = (await shared()).era
        if there is wanted or not self._eras.may_have(wanted):
            return None
        if self._yields is not None:
            self._eras.prefer(there)  # the clients of its era have no other connection
        if self._yields is not None and not self._yielded and not self._of and self._yields():
            await self._turned(wanted, shared)
            return None
        other = self._of.get(wanted)
        if other is None:
            other = self._of[wanted] = self._make(wanted)
            tasks.start_soon(other.run)
        if not self._is_worth_a_wait(wanted, other.status.state):
            return None
        return await self._connected(wanted, other)

    async def _turned(self, era: Era, shared: Callable[[], Awaitable[ServerHandshake]]) -> None:
        """Reopen the shared connection in the era of the first client, so that no second one is needed."""
        self._yielded = True  # the result is known from now on, or it failed
        self.turning = anyio.Event()
        self._eras.turn_to(era)
        try:
            try:
                handshake = await shared()
            except UpstreamError as error:
                self._do_without(era, str(error))
                handshake = await shared()  # in whatever era it can be had
            if handshake.era is era:
                self._eras.note(era, had=True)
            self._learnt()
        finally:
            self.turning.set()
            self.turning = None

    def _is_worth_a_wait(self, era: Era, state: SourceState) -> bool:
        """Return whether to wait for a connection: a second process may hang forever, as for a lock of the first."""
        if era in self._failed:
            return state not in (*_DOWN, SourceState.STARTING)
        return era in self._proven or state not in _DOWN

    def _do_without(self, era: Era, why: str) -> None:
        """Serve clients without a connection that did not open in time; it is retried in the background."""
        self._failed.add(era)
        logger.log(
            logging.DEBUG if era in self._reported else logging.WARNING,
            "upstream %r: no connection of the %s era yet: %s; until there is, its clients are served in translation",
            self._upstream,
            era.value,
            why,
        )
        self._reported.add(era)

    async def _connected(self, era: Era, other: S) -> S | None:
        patience = self._patience()
        try:
            with anyio.fail_after(patience):
                await other.connected()
        except TimeoutError:
            self._do_without(era, f"it did not start within {patience:.1f} s")
            return None
        except UpstreamError as error:
            if other.refused and self._eras.may_have(era):
                self._eras.note(era, had=False)
                self._learnt()
                return None
            self._do_without(era, str(error))
            return None
        self._failed.discard(era)
        if era not in self._proven:
            self._proven.add(era)
            other.listen(partial(self._heard, other))
            self._heard(other, Change(ChangeKind.INTRODUCTION))
            self._eras.note(era, had=True)
            self._learnt()
        return other


def _goes_on(request: ClientRequest) -> bool:
    """Return whether a request continues an earlier one: its answers belong to the shared connection, which asked."""
    return not request.modern and (request.request_state is not None or bool(request.input_responses))
