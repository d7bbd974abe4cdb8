"""A server of the bridge, lent to agents of this process, which would otherwise start the same one for themselves.

To the server they are one more client, as those of the bridge are: calls, questions and progress find their way as for
all clients. What is configured for the bridge (which tools, under which names) concerns the bridge alone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
from msgspec.structs import replace

from gaia_bridge.client import ServerHandshake
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transport_factory import Watched
from gaia_bridge.contract import ChangeListener, ClientRequest, Source
from gaia_bridge.model import ServerFeatures, ServerSpec, SourceKind, SourceState, SourceStatus, StdioServerSpec
from gaia_bridge.runtime.background_loop import Lease, LentLoop
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.requests import AsksServer
from gaia_bridge.sources.upstream.shared_servers import SHARED_SERVERS, Borrows, covers, is_lendable
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)


class Lendable(Source, Protocol):
    """What is wanted of an upstream."""

    @property
    def everything(self) -> ServerFeatures:
        """What the server offers, whatever the configuration permits."""
        ...

    @property
    def awaited(self) -> bool:
        """Whether a request is waiting for the server to start."""
        ...

    async def started(self) -> None:
        """Wait until the server has started or failed to start."""
        ...

    async def connected(self) -> ServerHandshake:
        """Wait for a connection; raises `UpstreamError`."""
        ...

    def retry(self) -> None:
        """Connect again now if it failed."""
        ...

    def start_as(self, spec: ServerSpec) -> bool:
        """Start it in another way from now on; returns whether that is so: not while it is used."""
        ...

    async def ask(self, method: str, params: JSON, request: ClientRequest, *, beside: bool = True) -> JSON:
        """Forward a request; over the shared connection, whatever the client's era, unless `beside`."""
        ...

    async def call(self, own: str, arguments: JSON, request: ClientRequest, *, beside: bool = True) -> JSON:
        """Run a tool, under the server's own name for it, likewise."""
        ...


class Lending:
    """Lends one upstream. Implements `shared_servers.Lender`. Everything runs on its event loop, but for properties.

    Args:
        upstream: The upstream.
        transport: How it reaches its server.
        spec: Its entry.
        limits: How long those who borrow it may take to let it go.
        lends: Whether it is one that may be lent at all.
    """

    def __init__(
        self, upstream: Lendable, transport: Watched, spec: ServerSpec, limits: UpstreamLimits, *, lends: bool
    ) -> None:
        self.spec = spec
        self.source: Source = _Plain(upstream)
        self._upstream = upstream
        self._transport = transport
        self._limits = limits
        self._lends = lends and is_lendable(spec)
        self._loop: LentLoop | None = None
        self._sessions: set[Borrows] = set()
        self._returned = anyio.Event()

    @property
    def is_used(self) -> bool:
        """Whether somebody has borrowed it: it is to keep running then."""
        return bool(self._sessions)

    @property
    def works(self) -> bool:
        """Whether it runs, or will when it is used."""
        return self._loop is not None and self._upstream.status.state is not SourceState.FAILED

    @property
    def pid(self) -> int | None:
        """Its process, if it is one that runs."""
        return self._transport.pid

    def lease(self) -> Lease:
        """The right to run something on its event loop.

        Raises:
            RuntimeError: It is not lent any more.
        """
        if (loop := self._loop) is None:
            raise RuntimeError(LentLoop.gone)
        return loop.lease()

    def anticipate(self) -> None:
        """Have it started, when it is, as those want it who will borrow it: it is started once then."""
        for wanted in SHARED_SERVERS.sought(self.spec) if self._lends else ():
            if covers(wanted, self.spec) and not covers(self.spec, wanted):
                self._adopt(wanted)

    @asynccontextmanager
    async def offered(self) -> AsyncGenerator[None]:
        """Lend it until the end of the block; then it is taken from those who have it still."""
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
        """Wait until nobody has borrowed it. Bounded by the life of those who have, and of the bridge."""
        while self._sessions:
            self._returned = anyio.Event()
            await self._returned.wait()

    async def agrees(self, wanted: ServerSpec, patience: float) -> bool:
        """Whether it runs as somebody wants it, or can be started so, since nobody uses it yet.

        Args:
            wanted: The entry of whoever asks.
            patience: Seconds that requests may take there; it must not be the bridge that gives up first.
        """
        if not self._lends or patience > self._limits.call_timeout:
            return False
        return _alike(wanted, self.spec) or (not self._sessions and covers(wanted, self.spec))

    async def open(self, session: Borrows, wanted: ServerSpec) -> None:
        """Have it run as it is wanted, and open a connection to `source`.

        Raises:
            UpstreamError: It does not run, or not so.
        """
        self._sessions.add(session)
        try:
            if self._upstream.status.state is SourceState.STARTING:
                await self._upstream.connected()
            if not _alike(wanted, self.spec) and not (covers(wanted, self.spec) and self._adopt(wanted)):
                raise UpstreamError("is used already by clients of the bridge, which see other variables")
            if self._upstream.status.state is SourceState.FAILED:
                self._upstream.retry()
            await self._upstream.connected()
            await session.open()
        except BaseException:
            self._forget(session)
            raise

    async def close(self, session: Borrows) -> None:
        """Close such a connection."""
        try:
            await session.close()
        finally:
            self._forget(session)

    def _adopt(self, wanted: ServerSpec) -> bool:
        """Start it with the variables that somebody else would pass on to it, who starts it otherwise for himself."""
        assert isinstance(wanted, StdioServerSpec) and isinstance(self.spec, StdioServerSpec)
        spec = replace(self.spec, inherit_env=wanted.inherit_env)
        if not self._upstream.start_as(spec):
            return False
        self.spec = spec
        return True

    def _forget(self, session: Borrows) -> None:
        self._sessions.discard(session)
        if not self._sessions:
            self._returned.set()


def _alike(wanted: ServerSpec, running: ServerSpec) -> bool:
    return covers(wanted, running) and covers(running, wanted)


class _Plain(AsksServer):
    """What a server offers, as it offers it, over the connection that all share. Implements `Source`.

    Args:
        upstream: The server.
    """

    def __init__(self, upstream: Lendable) -> None:
        self._upstream = upstream

    @property
    def name(self) -> str:
        """What the bridge calls it."""
        return self._upstream.name

    @property
    def kind(self) -> SourceKind:
        """A server."""
        return self._upstream.kind

    @property
    def features(self) -> ServerFeatures:
        """Everything."""
        return self._upstream.everything

    @property
    def status(self) -> SourceStatus:
        """That of the server."""
        return self._upstream.status

    @property
    def awaited(self) -> bool:
        """Whether a request is waiting for the server to start."""
        return self._upstream.awaited

    async def started(self) -> None:
        """Wait until the server has started or failed to start."""
        await self._upstream.started()

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Be told of changes."""
        return self._upstream.listen(listener)

    async def settle(self, *, listed_once: bool = False) -> None:
        """Wait briefly until it is known what it offers."""
        await self._upstream.settle(listed_once=listed_once)

    async def learn(self) -> None:
        """Wait until it is known what it offers."""
        await self._upstream.learn()

    async def refresh(self) -> None:
        """Read old lists again."""
        await self._upstream.refresh()

    async def seek(self) -> None:
        """Read the lists again."""
        await self._upstream.seek()

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        """Run a tool."""
        return await self._upstream.call(name, arguments, request, beside=False)

    async def ask(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Forward a request."""
        return await self._upstream.ask(method, params, request, beside=False)

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Pass on any other request."""
        return await self.ask(method, params, request)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to updates of a resource."""
        await self._upstream.subscribe(uri)

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription."""
        await self._upstream.unsubscribe(uri)
