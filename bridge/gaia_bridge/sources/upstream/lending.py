"""A server of the bridge, lent to agents of this process, which would otherwise start the same one for themselves.

To the server they are one more client, like those of the bridge: calls, questions and progress work as for
all clients. The bridge's configuration (which tools, under which names) applies to the bridge alone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from msgspec.structs import replace

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.contract import Source
from gaia_bridge.errors import LoopEndedError
from gaia_bridge.model import ServerSpec, SourceState, StdioServerSpec
from gaia_bridge.runtime.lent_loop import Lease, LentLoop
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.shared_servers import SHARED_SERVERS, Borrows, covers, is_lendable
from gaia_bridge.sources.upstream.supervised_connection import SupervisedConnection

logger = logging.getLogger(__name__)


class Lending:
    """Lends one upstream. Implements `shared_servers.Lender`. All but the properties runs on its event loop."""

    def __init__(
        self, source: Source, connection: SupervisedConnection, limits: UpstreamLimits, *, lends: bool
    ) -> None:
        self.source = source
        self._connection = connection
        self._limits = limits
        self._lends = lends and is_lendable(connection.spec)
        self._loop: LentLoop | None = None
        self._sessions: set[Borrows] = set()
        self._returned = anyio.Event()

    @property
    def spec(self) -> ServerSpec:
        """The entry by which the server is started or reached."""
        return self._connection.spec

    @property
    def is_used(self) -> bool:
        """Whether the server is lent: then it has to keep running."""
        return bool(self._sessions)

    @property
    def works(self) -> bool:
        """Whether the server runs, or will when it is used."""
        return self._loop is not None and self._connection.supervisor.status.state is not SourceState.FAILED

    @property
    def pid(self) -> int | None:
        """The server's process, if one runs."""
        return self._connection.transport.pid

    def lease(self) -> Lease:
        """Return the right to run something on its event loop.

        Raises:
            LoopEndedError: The server is not lent any more.
        """
        if (loop := self._loop) is None:
            raise LoopEndedError(LentLoop.gone)
        return loop.lease()

    def anticipate(self) -> None:
        """Prepare the start with the variables that waiting borrowers want: then the server is started only once."""
        for wanted in SHARED_SERVERS.wanted(self.spec) if self._lends else ():
            if covers(wanted, self.spec) and not covers(self.spec, wanted):
                self._adopt(wanted)

    @asynccontextmanager
    async def offered(self) -> AsyncGenerator[None]:
        """Lend the server until the end of the block; then close the connections of those that still have it."""
        if not self._lends:
            yield
            return
        self._loop = LentLoop()
        take_back = SHARED_SERVERS.add(self)
        try:
            yield
        finally:
            take_back()
            loop, self._loop = self._loop, None
            loop.close()
            with anyio.CancelScope(shield=True), anyio.move_on_after(self._limits.drain_timeout):
                for session in tuple(self._sessions):
                    await session.close()
            self._sessions.clear()

    async def wait_returned(self) -> None:
        """Wait until the server is not lent any more. Bounded by the life of the borrowers, and of the bridge."""
        while self._sessions:
            self._returned = anyio.Event()
            await self._returned.wait()

    async def agrees(self, wanted: ServerSpec, patience: float) -> bool:
        """Return whether the server runs as a borrower wants it, or can be started so, since nobody uses it yet.

        Args:
            patience: Seconds that requests may take there; the bridge must not be the first to give up.
        """
        if not self._lends or patience > self._limits.call_timeout:
            return False
        return _alike(wanted, self.spec) or (not self._sessions and covers(wanted, self.spec))

    async def open(self, session: Borrows, wanted: ServerSpec) -> None:
        """Start the server as wanted, if needed, and open a connection to `source`.

        Raises:
            UpstreamError: The server does not run, or not as wanted.
        """
        self._sessions.add(session)
        try:
            if self._connection.supervisor.status.state is SourceState.STARTING:
                await self._connection.connected()
            if not _alike(wanted, self.spec) and not (covers(wanted, self.spec) and self._adopt(wanted)):
                raise UpstreamError("is used already by clients of the bridge, which see other variables")
            if self._connection.supervisor.status.state is SourceState.FAILED:
                self._connection.supervisor.retry()
            await self._connection.connected()
            await session.open()
        except BaseException:
            self._forget(session)
            raise

    async def close(self, session: Borrows) -> None:
        """Close a connection to `source`."""
        try:
            await session.close()
        finally:
            self._forget(session)

    def _adopt(self, wanted: ServerSpec) -> bool:
        """Start the server with the variables of a borrower, which would otherwise start one for itself."""
        assert isinstance(wanted, StdioServerSpec) and isinstance(self.spec, StdioServerSpec)
        return self._connection.start_as(replace(self.spec, inherit_env=wanted.inherit_env))

    def _forget(self, session: Borrows) -> None:
        self._sessions.discard(session)
        if not self._sessions:
            self._returned.set()


def _alike(wanted: ServerSpec, running: ServerSpec) -> bool:
    return covers(wanted, running) and covers(running, wanted)
