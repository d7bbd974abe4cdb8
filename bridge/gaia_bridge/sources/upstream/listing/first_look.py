"""Bounds how long clients wait for the first lists of one server, so that a server that hangs delays them once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from gaia_bridge.client import Era
from gaia_bridge.settings import UpstreamLimits


class FirstLook:
    """How long clients waited for one server, and may still wait. Use it only on the event loop.

    Args:
        limits: Of the server.
    """

    def __init__(self, limits: UpstreamLimits) -> None:
        self._limits = limits
        self._first = 0.0
        self._met: set[Era] = set()
        self._began = self._took = 0.0

    async def within(self, wait: Callable[[], Awaitable[None]], *, listed_once: bool) -> None:
        """Wait for something. All waits together last at most `first_look` seconds, or `first_list`.

        Args:
            wait: Waits for it.
            listed_once: Whether the client lists once, so that `first_list` counts.
        """
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
        """Seconds that clients wait for a connection of their era, by what the last one took."""
        return round(self._took * self._limits.second_start + self._limits.first_look, 2)

    def is_first_of(self, era: Era) -> bool:
        """Whether this is the first client of an era."""
        first = era not in self._met
        self._met.add(era)
        return first
