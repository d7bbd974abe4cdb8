"""Changes that wait to be told to one receiver."""

from __future__ import annotations

import logging
from typing import Final

import anyio

from gaia_bridge.model import Change

logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 1_000
"""Changes that wait for one receiver: a flood of updates must not add up to the whole memory."""


class ChangeQueue:
    """Each change once, however often it happened. Only on the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[Change, None] = {}
        self._news: anyio.Event | None = None

    def put(self, change: Change) -> None:
        """Tell of a change soon. Never blocks; beyond the limit, only changes of lists are still taken."""
        if len(self._waiting) >= _MAX_WAITING and not change.kind.is_list:
            logger.debug("dropped %s: too many wait", change)
            return
        self._waiting[change] = None
        if self._news is not None:
            self._news.set()

    def take(self) -> Change | None:
        """The next change, if there is one."""
        if not self._waiting:
            return None
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change

    async def get(self) -> Change:
        """Wait for the next change."""
        while (change := self.take()) is None:
            self._news = anyio.Event()
            await self._news.wait()
        return change
