"""Ends the process in bounded time, whatever code runs in it, and even if the interpreter hangs in its shutdown.

Imports hardly any module, because the program makes a deadline before anything else.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from contextlib import suppress

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_LAST_WORDS = 0.5
"""Seconds for the last call, and to report that something hangs, where nobody may be reading."""


class ExitDeadline:
    """Ends the process from a thread of its own. Of several deadlines, the earliest counts.

    At its end, the interpreter waits for threads and for functions registered with `atexit`, and runs `__del__` of all
    remaining objects, with all other threads stopped: any agent's code can hang there for ever. So a program never gets
    that far; `leave` is the last function that is registered.

    Args:
        exit_grace: Seconds for threads and exit handlers, once the cleanup is done; `None` where the process is not
            ours, and goes on.
    """

    def __init__(self, exit_grace: float | None = None) -> None:
        self.code = 0
        """The exit code of the process."""
        self.last: Callable[[], object] = lambda: None
        """Called when the process is about to end, by `leave` or by force."""
        self._exit_grace = exit_grace
        self._news: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._leaving = False

    def start(self) -> None:
        """Start the thread: from now on `begin` may be called."""
        self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)
        self._thread.start()

    def begin(self, seconds: float) -> None:
        """End the process in that many seconds. May be called in a signal handler."""
        self._news.put(time.monotonic() + seconds)

    def finish(self) -> None:
        """Begin the exit grace, or cancel all deadlines if the process goes on."""
        if self._exit_grace is None:
            self._news.put(None)
        else:
            self._leaving = True
            self.begin(self._exit_grace)

    def leave(self) -> None:
        """End the process, if `finish` began the exit grace; see above."""
        if self._leaving:
            self.last()
            _flush()
            os._exit(self.code)

    def _watch(self) -> None:
        end: float | None = None
        while True:
            try:
                news = self._news.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if news is None:
                return
            end = news if end is None else min(end, news)
        with suppress(RuntimeError):  # no thread can be started
            speaking = threading.Thread(target=self._say, daemon=True)
            speaking.start()
            speaking.join(_LAST_WORDS)
        os._exit(self.code)  # without the interpreter's shutdown, which may hang

    def _say(self) -> None:
        self.last()
        if not self._leaving:
            logger.warning("something does not end; the process does")
        from gaia_bridge_cli.streams import drain  # loaded by now, if it is in use

        drain()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
