"""Several who work at once, step by step, in the order that a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """Whose step is next. Only on one event loop.

    Args:
        order: A name for each step.
    """

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)
        self._news = asyncio.Condition()

    @asynccontextmanager
    async def step(self, name: str) -> AsyncGenerator[None]:
        """Wait for a step."""
        async with self._news:
            await self._news.wait_for(lambda: self._order[0] == name)
        try:
            yield
        finally:
            await self._pass(lambda: self._order.pop(0))

    async def leave(self, name: str) -> None:
        """Take no further steps."""

        def remove() -> None:
            self._order = [other for other in self._order if other != name]

        await self._pass(remove)

    async def _pass(self, change: Callable[[], object]) -> None:
        async with self._news:
            change()
            self._news.notify_all()
