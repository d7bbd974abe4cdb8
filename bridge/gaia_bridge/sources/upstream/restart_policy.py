"""Decides when to connect again to a server that failed. Pure."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from gaia_bridge.settings import UpstreamLimits

_EXPONENT: Final = 30
"""Doublings after which every pause is at its cap, whatever the limits; more would only overflow."""


class RestartPolicy:
    """Counts the failures of one server, and computes the pause after each. Callers pass the time.

    Args:
        gives_up: Whether to stop after too many failures. A child that crashes again and again will not recover by
            itself; a server on the network may well come back.
    """

    def __init__(
        self, limits: UpstreamLimits, *, gives_up: bool, uniform: Callable[[float, float], float] = random.uniform
    ) -> None:
        self._limits = limits
        self.gives_up = gives_up
        self._uniform = uniform
        self._in_a_row = 0
        self._crashes: deque[float] = deque(maxlen=limits.crashes)
        self._ready_since = math.inf

    def ready(self, now: float) -> None:
        """Note that the server works now."""
        self._ready_since = now

    def failed(self, now: float, at_least: float = 0) -> float | None:
        """Note that the server failed.

        Args:
            now: Seconds, on a clock that never goes back.
            at_least: Seconds that the server asked for (HTTP `Retry-After`).

        Returns:
            Seconds until the next attempt, or `None` to give up. Full jitter, so that many clients of a
            server that recovers do not come back at the same moment.
        """
        limits = self._limits
        if now - self._ready_since >= limits.healthy:
            self.forget()
        self._ready_since = math.inf
        self._crashes.append(now)
        if self.gives_up and len(self._crashes) == limits.crashes and now - self._crashes[0] < limits.crash_window:
            return None
        ceiling = min(limits.backoff_cap, limits.backoff_start * 2 ** min(self._in_a_row, _EXPONENT))
        self._in_a_row += 1
        return max(self._uniform(0, ceiling), min(at_least, limits.retry_after_cap))

    def forget(self) -> None:
        """Forget all failures."""
        self._in_a_row = 0
        self._crashes.clear()
