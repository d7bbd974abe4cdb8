"""How long a request may take: without a sign of life, and in all."""

from __future__ import annotations

import asyncio

from msgspec import Struct

__all__ = ["Clock", "Deadline"]


class Deadline(Struct, frozen=True):
    """How long one request may take, in seconds."""

    idle: float
    """Without a sign of life; progress starts it anew."""
    cap: float
    """In all, whatever progress is reported."""


class Clock:
    """Ends one request in flight when its time is up.

    Args:
        deadline: How long it may take.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._deadline = deadline
        self._cap_at = now + deadline.cap
        self._holds = 0
        self.is_over = False
        """Whether the request has ended; who held its clock may release it later."""
        self._ends_at = min(now + deadline.idle, self._cap_at)
        # Every request has one: it costs a quarter of an anyio scope.
        self.timeout = asyncio.timeout_at(self._ends_at)
        """Around the waiting for the answer."""

    def restart(self) -> None:
        """There was a sign of life."""
        if not self._holds:
            self._end_at(min(self._loop.time() + self._deadline.idle, self._cap_at))

    def hold(self) -> None:
        """No sign of life is expected until `release`, which goes with each `hold`."""
        self._holds += 1
        self._end_at(self._cap_at)

    def release(self) -> None:
        """A sign of life is expected again, from now on."""
        self._holds -= 1
        self.restart()

    @property
    def seconds(self) -> float:
        """What was waited for in vain."""
        return self._deadline.idle if self._ends_at < self._cap_at else self._deadline.cap

    def _end_at(self, when: float) -> None:
        if not self.is_over and not self.timeout.expired():
            self._ends_at = when
            self.timeout.reschedule(when)
