"""Counts the requests that need one server, and lets only so many of them run at once."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio

from gaia_bridge.client.transport import UpstreamError


class Turns:
    """A semaphore for the concurrent requests of one server, which a holder may release for a while.

    As a context manager, it counts something that needs the server and takes no turn. Use only on the event loop.

    Args:
        limit: The most concurrent requests; others wait in order of arrival.
        patience: Seconds for which a request waits.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self.count = 0
        """The requests that wait or are in progress."""
        self.last = -math.inf
        """The time at which the last one ended, by the event loop's clock."""
        self._limit = limit
        self._patience = patience
        self._free = limit
        """Negative while more than `limit` hold the semaphore: those that rested return without waiting."""
        self._queue: deque[Callable[[], object]] = deque()
        """Functions that tell a request that it has its turn now."""
        self._drained: anyio.Event | None = None

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *raised: object) -> None:
        self._leave()

    def take(self) -> bool:
        """Begin a request if it can have a turn at once; return whether it can."""
        if self._free <= 0:  # else the queue is empty: a released turn goes to the next in it
            return False
        self._free -= 1
        self.count += 1
        return True

    def take_over(self) -> None:
        """Begin a request that another holder has made."""
        self._free -= 1
        self.count += 1

    async def wait(self) -> None:
        """Begin a request when it has its turn.

        Raises:
            UpstreamError: The turn did not come in time.
        """
        turn = anyio.Event()
        self.wait_for(turn.set)
        try:
            with anyio.move_on_after(self._patience):
                await turn.wait()
            if not turn.is_set():
                raise UpstreamError(f"works on {self._limit} requests, which is all it may; try again later")
        except BaseException:
            if turn.is_set():  # it came just now
                self.give(asyncio.get_running_loop().time())
            else:
                self.leave(turn.set)
            raise

    def wait_for(self, has_turn: Callable[[], object]) -> None:
        """Begin a request later: call `has_turn` then. Only while no turn can be had at once."""
        self.count += 1
        self._queue.append(has_turn)

    def leave(self, has_turn: Callable[[], object]) -> None:
        """Wait no longer, if the turn has not come."""
        if has_turn in self._queue:
            self._queue.remove(has_turn)
            self._leave()

    def give(self, now: float) -> None:
        """End a request at that time of the event loop, and pass its turn on."""
        self.count -= 1
        self.last = now
        self._free += 1
        if self._queue or self._drained is not None:
            self._tell()

    @contextmanager
    def resting(self) -> Generator[None]:
        """Release the semaphore during the block, while the server waits for an answer."""
        self._free += 1
        self._tell()
        try:
            yield
        finally:
            self._free -= 1

    async def wait_drained(self) -> None:
        """Wait until no request waits or is in progress."""
        while self.count:
            self._drained = self._drained or anyio.Event()
            await self._drained.wait()

    def _leave(self) -> None:
        self.count -= 1
        self.last = asyncio.get_running_loop().time()
        self._tell()

    def _tell(self) -> None:
        """Pass a free turn on, and wake those that wait for the end of requests."""
        if self._free > 0 and self._queue:
            self._free -= 1
            self._queue.popleft()()
        if self._drained is not None:
            self._drained.set()
            self._drained = None
