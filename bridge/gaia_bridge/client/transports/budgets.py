"""Limits on what one server may cost all others: useless messages, and time of the event loop. Pure."""

from __future__ import annotations

from collections.abc import Callable

from gaia_bridge.client.transport import UpstreamError


class FloodError(UpstreamError):
    """The server sent too many useless messages; its connection is not read any further."""


class Budget:
    """Counts useless messages, `what` for short, and fails when there are more than `most` within `window` seconds."""

    def __init__(self, most: int, window: float, now: Callable[[], float], what: str) -> None:
        self._most = most
        self._window = window
        self._now = now
        self._what = what
        self._since = now()
        self._count = 0

    def add(self, number: int) -> None:
        """Count a number of useless messages; raise `FloodError` if there are too many."""
        if not number:
            return
        if (now := self._now()) - self._since >= self._window:
            self._since, self._count = now, 0
        self._count += number
        if self._count > self._most:
            raise FloodError(f"sent more than {self._most:,} {self._what} within {self._window:g} s")


class Share:
    """The share of the event loop's time that one stream may use (a token bucket); beyond, it is read more slowly.

    Args:
        part: The fraction of all time that may be used continuously.
        burst: Seconds of processor time that may be used at once.
    """

    def __init__(self, part: float, burst: float, now: Callable[[], float]) -> None:
        self._part = part
        self._burst = burst
        self._now = now
        self._credit = burst
        self._at = now()

    def spend(self, seconds: float) -> float:
        """Return the seconds to wait before more is read.

        Args:
            seconds: Processor time that was spent on the stream; not wall-clock time, which grows on a busy machine.
        """
        now = self._now()
        credit = self._credit + (now - self._at) * self._part
        self._credit = credit = (credit if credit < self._burst else self._burst) - seconds
        self._at = now
        return 0.0 if credit >= 0 else -credit / self._part
