"""Limits the concurrent requests of one server. Calls that wait for a client's answer do not count."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio

from gaia_bridge.client.transport import UpstreamError


class Turns:
    """A semaphore that a holder may release for a while. Use only on the event loop.

    Args:
        limit: The most concurrent requests; others wait in order of arrival.
        patience: Seconds for which a request waits.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self._limit = limit
        self._patience = patience
        self._free = limit
        """Negative while more than `limit` hold the semaphore: those that rested return without waiting."""
        self._queue: deque[anyio.Event] = deque()

    async def __aenter__(self) -> None:
        """Acquire the semaphore.

        Raises:
            UpstreamError: The semaphore was not free in time.
        """
        if self._free > 0:  # then the queue is empty: a released turn goes to the next in it
            self._free -= 1
        else:
            await self._wait()

    async def __aexit__(self, *raised: object) -> None:
        """Release the semaphore."""
        self.give()

    def take(self) -> bool:
        """Acquire the semaphore if it is free; return whether it was."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def give(self) -> None:
        """Release the semaphore."""
        if self._queue:
            self._give()
        else:
            self._free += 1

    @asynccontextmanager
    async def taken_over(self) -> AsyncGenerator[None]:
        """Hold the semaphore without waiting, for a request that another holder has made."""
        self._free -= 1
        try:
            yield
        finally:
            self.give()

    @contextmanager
    def resting(self) -> Generator[None]:
        """Release the semaphore during the block, while the server waits for an answer."""
        self._give()
        try:
            yield
        finally:
            self._free -= 1

    def _give(self) -> None:
        self._free += 1
        if self._free > 0 and self._queue:
            self._free -= 1
            self._queue.popleft().set()

    async def _wait(self) -> None:
        turn = anyio.Event()
        self._queue.append(turn)
        try:
            with anyio.move_on_after(self._patience):
                await turn.wait()
        except BaseException:
            self._leave(turn)
            raise
        if not turn.is_set():
            self._leave(turn)
            raise UpstreamError(f"works on {self._limit} requests, which is all it may; try again later")

    def _leave(self, turn: anyio.Event) -> None:
        if turn.is_set():  # it came just now
            self._give()
        else:
            self._queue.remove(turn)
