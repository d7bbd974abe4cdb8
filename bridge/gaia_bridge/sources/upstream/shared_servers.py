"""The servers that bridges of this process run, and who of the same process would use them: one process for both.

What runs where is a fact of the process and not of a bridge, because an agent does not know which bridge publishes it,
and often connects before there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from msgspec.structs import replace

from gaia_bridge.config.fingerprints import digest, fingerprint
from gaia_bridge.config.launching.workplaces import own_folder
from gaia_bridge.contract import Source
from gaia_bridge.model import HttpServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.runtime.background_loop import Lease


class Borrows(Protocol):
    """A connection through which a server is used that somebody else runs."""

    async def open(self) -> None:
        """Open it; raises `UpstreamError`."""
        ...

    async def close(self) -> None:
        """Close it, within a bounded time."""
        ...


class Lender(Protocol):
    """A server that a bridge runs, as others of this process use it. Coroutines run under a lease of its event loop."""

    @property
    def spec(self) -> ServerSpec:
        """How it is started or reached."""
        ...

    @property
    def source(self) -> Source:
        """What it offers: all of it, under the names that it gives."""
        ...

    @property
    def works(self) -> bool:
        """Whether it runs, or will when it is used. May be read in any thread."""
        ...

    @property
    def pid(self) -> int | None:
        """Its process, if it is one that runs. May be read in any thread."""
        ...

    def lease(self) -> Lease:
        """The right to run what follows on its event loop."""
        ...

    async def agrees(self, wanted: ServerSpec, patience: float) -> bool:
        """Whether it runs, or can be started, as somebody wants it. Returns at once."""
        ...

    async def open(self, session: Borrows, wanted: ServerSpec) -> None:
        """Have it run, and open a connection to `source`; raises `UpstreamError`."""
        ...

    def close(self, session: Borrows) -> Coroutine[Any, Any, None]:
        """Close such a connection."""
        ...


class SharedServers:
    """Who lends, and who would borrow. Safe to be used in any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lenders: dict[str, list[Lender]] = {}
        self._seekers: dict[object, tuple[ServerSpec, Callable[[], None]]] = {}

    def add(self, lender: Lender) -> Callable[[], None]:
        """A bridge runs a server, which those are told who would use it.

        Returns:
            An idempotent function that says that it does no longer.
        """
        key = _key(lender.spec)
        with self._lock:
            self._lenders.setdefault(key, []).append(lender)
            seekers = [tell for spec, tell in self._seekers.values() if _key(spec) == key]
        for tell in seekers:
            tell()

        def remove() -> None:
            with self._lock:
                others = [other for other in self._lenders.pop(key, []) if other is not lender]
                if others:
                    self._lenders[key] = others

        return remove

    def find(self, spec: ServerSpec) -> Lender | None:
        """Who runs the server that an entry leads to; the latest, where several bridges do."""
        with self._lock:
            if not self._lenders or not is_lendable(spec):
                return None
            return self._lenders.get(_key(spec), [None])[-1]

    def seek(self, spec: ServerSpec, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` whenever a bridge begins to run a server. It must neither block nor raise.

        Args:
            spec: The entry of the server.
            tell: Called in any thread.

        Returns:
            An idempotent function that ends it.
        """
        if not is_lendable(spec):
            return lambda: None
        token = object()
        with self._lock:
            self._seekers[token] = spec, tell

        def stop() -> None:
            with self._lock:
                self._seekers.pop(token, None)

        return stop

    def sought(self, spec: ServerSpec) -> list[ServerSpec]:
        """How those who would use a server want it started."""
        with self._lock:
            if not self._seekers:
                return []
            key = _key(spec)
            return [wanted for wanted, _ in self._seekers.values() if _key(wanted) == key]


def is_lendable(spec: ServerSpec) -> bool:
    """Whether a server is one that several may use: not one where a client has a connection of its own."""
    options = spec.options
    is_shared = options.isolation == "shared" and not options.is_of_one_client
    return is_shared and isinstance(spec, StdioServerSpec | HttpServerSpec)


def covers(wanted: ServerSpec, running: ServerSpec) -> bool:
    """Whether a server that was started as the one entry wants it lacks nothing that the other gives it.

    Args:
        wanted: The one.
        running: The other, which leads to the same server but for the variables that it inherits.
    """
    if not isinstance(wanted, StdioServerSpec) or not isinstance(running, StdioServerSpec):
        return True
    has, needs = wanted.inherit_env, running.inherit_env
    if isinstance(has, bool) or isinstance(needs, bool):
        return has is True or not needs
    return set(needs) <= set(has)


def _key(spec: ServerSpec) -> str:
    """What has to be the same. Of the variables that a process inherits, it may see those that either wants; and a
    folder of its own is what an entry has that names none, so that either may have started it."""
    alike = spec
    if isinstance(spec, StdioServerSpec):
        alike = replace(spec, inherit_env=(), cwd=None if spec.cwd == own_folder(spec.name) else spec.cwd)
    return digest([fingerprint(alike), spec.options.era])


SHARED_SERVERS: Final = SharedServers()
"""Of this process."""
