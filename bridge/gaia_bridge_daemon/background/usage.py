"""Counts the users of a bridge, so that it can end some time after the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from starlette.types import ASGIApp, Receive, Scope, Send


class UserCounter:
    """Counts users. Make it on the event loop.

    Args:
        keep: Seconds without a user after which `on_unused` is called; `None` never does.
        first: Seconds to wait for the first user, if that is more.
        on_unused: Called once.
    """

    def __init__(self, keep: float | None, first: float, on_unused: Callable[[], None]) -> None:
        self._keep = keep
        self._on_unused = on_unused
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._wait(first)

    @property
    def users(self) -> int:
        """The number of users."""
        return self._users

    @property
    def keep(self) -> float | None:
        """Seconds that the bridge stays without a user; `None` for ever."""
        return self._keep

    def stay(self, keep: float | None) -> None:
        """Change the time that the bridge stays without a user.

        Args:
            keep: Seconds without any user; `None` for ever.
        """
        self._keep = keep
        if self._timer is not None:
            self._timer.cancel()
        self._wait()

    @contextmanager
    def one_more(self) -> Generator[None]:
        """Count one more user while the context lasts."""
        self._users += 1
        self._empty.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._users -= 1
            self._wait()

    def of(self, app: ASGIApp) -> ASGIApp:
        """Return an application whose requests count as users while they last; an event stream, while it is open."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            with self.one_more():
                await app(scope, receive, send)

        return counted

    async def none_left(self) -> None:
        """Wait until there is no user."""
        await self._empty.wait()

    def close(self) -> None:
        """Stop the timer: `on_unused` is not called any more."""
        self._keep = None
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, least: float = 0) -> None:
        if self._users:
            return
        self._empty.set()
        if self._keep is not None:
            self._timer = asyncio.get_running_loop().call_later(max(self._keep, least), self._on_unused)
