"""Waiting for what will happen, without asking again and again."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from tests.support.bridges import PATIENCE

__all__ = ["Changing"]


class Changing:
    """Base of what changes while a test waits for it. What changes it calls `_changed` afterwards."""

    def __init__(self) -> None:
        self._change = anyio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; asks after every change."""
        with anyio.fail_after(PATIENCE):
            while not holds():
                await self._change.wait()

    def _changed(self) -> None:
        self._change.set()
        self._change = anyio.Event()
