"""What one server may cost all others: lines that say nothing, and time of the event loop. Pure."""

from __future__ import annotations

from collections.abc import Callable

from gaia_bridge.client.transport import UpstreamError

__all__ = ["Budget", "FloodError", "Share"]


class FloodError(UpstreamError):
    """The server sends so much of no use that it is not read any further.

    Args:
        what: What it sent.
        most: How many of it are taken.
        window: Within so many seconds.
    """

    def __init__(self, what: str, most: int, window: float) -> None:
        super().__init__(f"sent more than {most:,} {what} within {window:g} s")


class Budget:
    """Counts what is of no use.

    Args:
        most: How much of it is taken within the window.
        window: Seconds.
        now: The clock.
        what: What is counted, for an error.
    """

    def __init__(self, most: int, window: float, now: Callable[[], float], what: str) -> None:
        self._most = most
        self._window = window
        self._now = now
        self._what = what
        self._since = now()
        self._count = 0

    def add(self, number: int) -> None:
        """Count some.

        Raises:
            FloodError: It is too much.
        """
        if not number:
            return
        if (now := self._now()) - self._since >= self._window:
            self._since, self._count = now, 0
        self._count += number
        if self._count > self._most:
            raise FloodError(self._what, self._most, self._window)


class Share:
    """How much of the loop's time may be spent on what one stream brings. One that brings more is read more slowly.

    Args:
        part: Of all time, where it goes on.
        burst: Seconds at once, before that counts.
        now: The clock.
    """

    def __init__(self, part: float, burst: float, now: Callable[[], float]) -> None:
        self._part = part
        self._burst = burst
        self._now = now
        self._credit = burst
        self._at = now()

    def spend(self, seconds: float) -> float:
        """Seconds to wait before more is read.

        Args:
            seconds: Processor time that was spent: on a busy machine, that in which others had it is no server's cost.
        """
        now = self._now()
        self._credit = min(self._burst, self._credit + (now - self._at) * self._part) - seconds
        self._at = now
        return max(0.0, -self._credit / self._part)
