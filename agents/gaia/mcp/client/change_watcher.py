"""News from a server, brought to code that may block."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["ChangeWatcher"]

logger = logging.getLogger(__name__)


class ChangeWatcher:
    """Calls a listener after something changed, in a thread that lives only while there is a change to report.

    However many changes there are, the listener runs at most once per interval, and always after the last.

    Args:
        name: What changes, for thread names and the log.
        interval: Seconds between two calls.
    """

    def __init__(self, name: str, interval: float) -> None:
        self._name = name
        self._interval = interval
        self._lock = threading.Lock()
        self._listener: Callable[[], None] | None = None
        self._changed = False
        self._stopped: threading.Event | None = None

    def watch(self, listener: Callable[[], None]) -> None:
        """Call `listener` from now on."""
        self._listener = listener

    def changed(self) -> None:
        """Note a change. Returns at once, in any thread."""
        with self._lock:
            if self._listener is None:
                return
            self._changed = True
            if self._stopped is None:
                self._stopped = threading.Event()
                threading.Thread(target=self._tell, args=(self._stopped,), name=self._name, daemon=True).start()

    def stop(self) -> None:
        """Report no change from before; a call that runs is left to its end."""
        with self._lock:
            self._changed = False
            if self._stopped is not None:
                self._stopped.set()
                self._stopped = None

    def _tell(self, stopped: threading.Event) -> None:
        while (listener := self._take(stopped)) is not None:
            try:
                listener()
            except Exception:
                logger.exception("%s: a listener failed", self._name)
            stopped.wait(self._interval)

    def _take(self, stopped: threading.Event) -> Callable[[], None] | None:
        """Return the listener if there is a change to report; at `None`, the thread that asks has to end."""
        with self._lock:
            if stopped is not self._stopped:
                return None
            if not self._changed:
                self._stopped = None
                return None
            self._changed = False
            return self._listener
