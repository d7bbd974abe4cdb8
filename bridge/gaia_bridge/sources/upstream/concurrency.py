"""How many requests one server works on at once. A call that waits for a person's answer is none of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from gaia_bridge.client.transport import UpstreamError

__all__ = ["Turns"]


class Turns:
    """A semaphore whose holders may rest. Only on the event loop.

    Args:
        limit: Requests at once; more wait their turn, first come, first served.
        patience: Seconds that a request waits for its turn.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self._limit = limit
        self._patience = patience
        self._free = limit
        """Below zero while more work than may, because they rested when others began."""
        self._queue: deque[anyio.Event] = deque()

    async def __aenter__(self) -> None:
        """Have a turn.

        Raises:
            UpstreamError: There was none in time.
        """
        if self._free > 0:  # nobody waits then, as whoever gives a turn back hands it on
            self._free -= 1
        else:
            await self._wait()

    async def __aexit__(self, *raised: object) -> None:
        """Give it back."""
        self._give()

    @contextmanager
    def resting(self) -> Generator[None]:
        """Let another have the turn while the server waits for us."""
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
