"""Tells of refused requests at a bounded rate: any web page can send thousands, and a log has other things to say."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

from gaia_bridge.settings import HttpLimits

logger = logging.getLogger(__name__)


class Refusals:
    """Logs the first refusals of each minute one by one, and of the others how many there were.

    Args:
        limits: How many, and how long that minute is.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._told = 0
        self._began = float("-inf")
        self._untold: Counter[int] = Counter()
        self._window: threading.Timer | None = None

    def tell(self, method: str, path: str, status: int, message: str) -> None:
        """Log a refusal, or count it.

        Args:
            method: Of the request.
            path: Of the request, fit to be shown.
            status: What it was answered with.
            message: Why.
        """
        if self._counts(status):
            return
        logger.info("refused %s %s with %d: %s", method, path, status, message)

    def _counts(self, status: int) -> bool:
        """Whether a refusal is only counted."""
        now = time.monotonic()
        with self._lock:
            if self._window is None and now - self._began > self._limits.refusal_window:
                self._began, self._told = now, 0
            if self._told < self._limits.refusals:
                self._told += 1
                return False
            self._untold[status] += 1
            if self._window is None:
                self._window = threading.Timer(self._began + self._limits.refusal_window - now, self._end)
                self._window.name = "gaia-refusals"
                self._window.daemon = True
                self._window.start()
            return True

    def _end(self) -> None:
        """That minute is over: say how many there were."""
        with self._lock:
            untold, self._untold = self._untold, Counter()
            self._window = None
        which = ", ".join(f"{count} with {status}" for status, count in sorted(untold.items()))
        logger.info("refused %d more requests within %g s: %s", untold.total(), self._limits.refusal_window, which)
