"""Telling when something changed by looking at it now and then, no more often than it is cheap to look."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

__all__ = ["Watcher"]

_log = logging.getLogger(__name__)

MIN_SECONDS = 2.0
"""Between two looks."""
SHARE = 0.005
"""Of the time: a look that takes 10 ms happens every two seconds, one that takes 100 ms every twenty."""


class Watcher:
    """Looks from a thread of its own while it is started. Safe to use from any thread.

    Polling, because it works on every file system and misses nothing; notification by the kernel needs one watch for
    each folder, ignored ones among them, and those are limited for the whole computer.

    Args:
        look: Returns something that differs after a change.
        changed: Called, in the thread, after a change.
        min_seconds: Between two looks.
    """

    def __init__(
        self, look: Callable[[], object], changed: Callable[[], None], *, min_seconds: float = MIN_SECONDS
    ) -> None:
        self._look = look
        self._changed = changed
        self._min_seconds = min_seconds
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None

    def start(self) -> None:
        """Begin to look; does nothing if it looks already."""
        with self._lock:
            if self._stop is not None:
                return
            self._stop = threading.Event()
            threading.Thread(target=self._run, args=(self._stop,), name="gaia-agents-watcher", daemon=True).start()

    def stop(self) -> None:
        """Look no more. The thread ends after the look that it is at; does not wait for it."""
        with self._lock:
            if self._stop is not None:
                self._stop.set()
                self._stop = None

    def _run(self, stop: threading.Event) -> None:
        previous: object = None
        pause, failed = 0.0, False
        while not stop.wait(pause):
            began = time.monotonic()
            try:
                seen = self._look()
                if previous is not None and seen != previous and not stop.is_set():
                    self._changed()
                previous, failed = seen, False
            except Exception:  # one bad look must not end all looking
                if not failed:
                    _log.exception("cannot tell whether the project changed")
                failed = True
            pause = max(self._min_seconds, (time.monotonic() - began) / SHARE)
