"""The second connection to a server, which serves clients of the other era.

A server of both eras may have features in only one of them, such as to ask its client during
a call. So a client gets a connection of its own era if the server has it. There is at most one for each; the
second is opened when the first client needs it, and its failures are its own: the first one serves all the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.client import Era
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.contract import ClientRequest
from gaia_bridge.model import Change, ChangeKind, SourceState
from gaia_bridge.sources.upstream.eras import OPTION_OF, era_of
from gaia_bridge.sources.upstream.supervised_connection import SupervisedConnection
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)

_THERE: Final = (SourceState.READY, SourceState.DEGRADED)
_DOWN: Final = (SourceState.BACKOFF, SourceState.FAILED)


class OtherEras:
    """The connections beside the shared one, for clients of the other era. Use only on the event loop.

    Args:
        shared: The shared connection.
        make: Makes the connection for one era; `None` if there shall be none.
        heard: Called with changes that the server announces on such a connection.
        yields: Whether the shared connection ends if it was not used yet. That saves nothing over HTTP, where a second
            connection needs no second process.
    """

    def __init__(
        self,
        shared: SupervisedConnection,
        make: Callable[[Era], SupervisedConnection] | None,
        heard: Callable[[SupervisedConnection, Change], None],
        *,
        yields: bool,
    ) -> None:
        self._shared = shared
        self._eras = shared.eras
        self._make = make if self._eras.only is None else None
        self._heard = heard
        self._yields = yields
        self._yielded = False
        self._of: dict[Era, SupervisedConnection] = {}
        self._proven: set[Era] = set()
        self._failed: set[Era] = set()
        self._reported: set[Era] = set()

    @property
    def details(self) -> list[JSON]:
        """The states of the connections, for status reports."""
        return [
            {
                "era": OPTION_OF[era],
                "protocolVersion": other.revision,
                "state": other.supervisor.status.state.value,
                "reason": other.supervisor.status.reason,
            }
            for era, other in self._of.items()
        ]

    def __iter__(self) -> Iterator[SupervisedConnection]:
        return iter(tuple(self._of.values()))  # a copy: connections may be added while a caller waits for one

    async def of(self, request: ClientRequest, tasks: TaskGroup) -> SupervisedConnection | None:
        """Return the connection that serves the client of a request; `None` for the shared connection.

        Raises:
            UpstreamError: There is no shared connection.
        """
        wanted = era_of(request)
        if self._make is None or not self._eras.may_have(wanted) or _goes_on(request):
            return None
        other = self._of.get(wanted)
        if other is not None and other.supervisor.status.state in _THERE and wanted in self._proven:
            return other
        if (turning := self._shared.turning) is not None:
            await turning.wait()
        if self._yields:
            self._eras.prefer(wanted)
        there = (await self._shared.connected()).era
        if there is wanted or not self._eras.may_have(wanted):
            return None
        if self._yields:
            self._eras.prefer(there)  # the clients of its era have no other connection
        if self._yields and not self._yielded and not self._of and self._shared.give_way():
            await self._turned(wanted)
            return None
        other = self._of.get(wanted)
        if other is None:
            other = self._of[wanted] = self._make(wanted)
            tasks.start_soon(other.run)
        if not self._is_worth_a_wait(wanted, other.supervisor.status.state):
            return None
        return await self._connected(wanted, other)

    async def _turned(self, era: Era) -> None:
        """Reopen the shared connection in the era of the first client, so that no second one is needed."""
        self._yielded = True  # the result is known from now on, or it failed
        turning = self._shared.turning = anyio.Event()
        self._eras.turn_to(era)
        try:
            try:
                handshake = await self._shared.connected()
            except UpstreamError as error:
                self._do_without(era, str(error))
                handshake = await self._shared.connected()  # in whatever era it can be had
            if handshake.era is era:
                self._eras.note(era, had=True)
            self._shared.note_eras()
        finally:
            turning.set()
            self._shared.turning = None

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
            self._shared.name,
            era.value,
            why,
        )
        self._reported.add(era)

    async def _connected(self, era: Era, other: SupervisedConnection) -> SupervisedConnection | None:
        patience = self._shared.look.second()
        try:
            with anyio.fail_after(patience):
                await other.connected()
        except TimeoutError:
            self._do_without(era, f"it did not start within {patience:.1f} s")
            return None
        except UpstreamError as error:
            if other.refused and self._eras.may_have(era):
                self._eras.note(era, had=False)
                self._shared.note_eras()
                return None
            self._do_without(era, str(error))
            return None
        self._failed.discard(era)
        if era not in self._proven:
            self._proven.add(era)
            other.tracker.listen(partial(self._heard, other))
            self._heard(other, Change(ChangeKind.INTRODUCTION))
            self._eras.note(era, had=True)
            self._shared.note_eras()
        return other


def _goes_on(request: ClientRequest) -> bool:
    """Return whether a request continues an earlier one: its answers belong to the shared connection, which asked."""
    return not request.modern and (request.request_state is not None or bool(request.input_responses))
