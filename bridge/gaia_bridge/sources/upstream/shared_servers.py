"""The servers that bridges of this process run, and other users of them in this process: one server for both.

The running servers are a fact of the process and not of a bridge: an agent does not know which bridge publishes it,
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
from gaia_bridge.runtime.lent_loop import Lease


class Borrows(Protocol):
    """A connection through which a borrower uses a server that a bridge runs."""

    async def open(self) -> None:
        """Open the connection; raises `UpstreamError`."""
        ...

    async def close(self) -> None:
        """Close the connection, within a bounded time."""
        ...


class Lender(Protocol):
    """A server that a bridge runs, for other users in this process. Coroutines run under a lease of its event loop."""

    @property
    def spec(self) -> ServerSpec:
        """The entry by which the server is started or reached."""
        ...

    @property
    def source(self) -> Source:
        """The whole offer of the server, under its own names."""
        ...

    @property
    def works(self) -> bool:
        """Whether the server runs, or will when it is used. May be read in any thread."""
        ...

    @property
    def pid(self) -> int | None:
        """The server's process, if one runs. May be read in any thread."""
        ...

    def lease(self) -> Lease:
        """Return the right to run coroutines on its event loop."""
        ...

    async def agrees(self, wanted: ServerSpec, patience: float) -> bool:
        """Return whether the server runs, or can be started, as a borrower wants it. Returns at once."""
        ...

    async def open(self, session: Borrows, wanted: ServerSpec) -> None:
        """Start the server if needed, and open a connection to `source`; raises `UpstreamError`."""
        ...

    def close(self, session: Borrows) -> Coroutine[Any, Any, None]:
        """Close a connection to `source`."""
        ...


class SharedServers:
    """The lenders and the would-be borrowers of servers. Safe to be used in any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lenders: dict[str, list[Lender]] = {}
        self._seekers: dict[object, tuple[ServerSpec, Callable[[], None]]] = {}

    def add(self, lender: Lender) -> Callable[[], None]:
        """Register a server that a bridge runs, and notify those that wait for it.

        Returns an idempotent function that removes it.
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
        """Return the lender of the server that an entry leads to; the latest, where several bridges run it."""
        with self._lock:
            if not self._lenders or not is_lendable(spec):
                return None
            return self._lenders.get(_key(spec), [None])[-1]

    def seek(self, spec: ServerSpec, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell`, in any thread, whenever a bridge begins to run a server. It must neither block nor raise.

        Returns an idempotent function that ends the calls.
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

    def wanted(self, spec: ServerSpec) -> list[ServerSpec]:
        """Return the entries of those that wait for a server."""
        with self._lock:
            if not self._seekers:
                return []
            key = _key(spec)
            return [wanted for wanted, _ in self._seekers.values() if _key(wanted) == key]


def is_lendable(spec: ServerSpec) -> bool:
    """Return whether several may use a server: not one where a client has a connection of its own."""
    options = spec.options
    is_shared = options.isolation == "shared" and not options.is_of_one_client
    return is_shared and isinstance(spec, StdioServerSpec | HttpServerSpec)


def covers(wanted: ServerSpec, running: ServerSpec) -> bool:
    """Return whether a server started by one entry has everything that another entry gives it.

    Args:
        running: The other entry, which leads to the same server except for the variables that it inherits.
    """
    if not isinstance(wanted, StdioServerSpec) or not isinstance(running, StdioServerSpec):
        return True
    has, needs = wanted.inherit_env, running.inherit_env
    if isinstance(has, bool) or isinstance(needs, bool):
        return has is True or not needs
    return set(needs) <= set(has)


def _key(spec: ServerSpec) -> str:
    """Return a key that is equal for entries of the same server. Variables that a process inherits do not count: it may
    see those that either entry wants. Its own folder counts as none, so that either may have started the server."""
    alike = spec
    if isinstance(spec, StdioServerSpec):
        alike = replace(spec, inherit_env=(), cwd=None if spec.cwd == own_folder(spec.name) else spec.cwd)
    return digest([fingerprint(alike), spec.options.era])


SHARED_SERVERS: Final = SharedServers()
"""The servers of this process."""
