"""Names an event loop that is held: what should never block did, and the log says where (F-205)."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from gaia_bridge.runtime import LoopHandle
from gaia_bridge.settings import LOOP_PATIENCE

__all__ = ["watching"]

logger = logging.getLogger(__name__)

_FRAMES: Final = 12
"""Frames of the stack that are shown, the innermost; those above them are of whoever started the loop."""


@contextmanager
def watching(patience: float = LOOP_PATIENCE) -> Generator[None]:
    """Watch the running event loop, from a thread of its own, which asks it once in that time for a sign of life.

    Args:
        patience: Seconds without one after which it is named.
    """
    watchdog = _Watchdog(patience)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class _Watchdog:
    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._loop = LoopHandle()
        self._held = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gaia-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._patience):
            alive = threading.Event()
            self._loop.call_soon(alive.set)
            if not self._came(alive):
                self._tell(alive)

    def _came(self, alive: threading.Event) -> bool:
        """Whether the sign of life came in time, or nobody can say because all of us stood still."""
        began, worked = time.monotonic(), time.process_time()
        if alive.wait(self._patience):
            return self._stood_still(began, worked) or time.monotonic() - began < 2 * self._patience
        return self._ended.is_set() or self._stood_still(began, worked)

    def _stood_still(self, began: float, worked: float) -> bool:
        """Whether the process was stopped, or the machine slept: we were not woken in time, and nobody worked."""
        passed = time.monotonic() - began
        return passed > 2 * self._patience and time.process_time() - worked < passed / 2

    def _tell(self, alive: threading.Event) -> None:
        frame = sys._current_frames().get(self._held)  # pyright: ignore[reportPrivateUsage] - there is no other way
        began = time.monotonic()
        stack = "".join(traceback.format_stack(frame)[-_FRAMES:]).rstrip() if frame is not None else None
        said, how_long = "the event loop has been held for %g s, and still is", (self._patience,)
        record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, said, how_long, None, sinfo=stack)
        if logger.isEnabledFor(logging.WARNING):
            logger.handle(record)
        while not (alive.wait(self._patience) or self._ended.is_set()):
            pass
        logger.warning("the event loop goes on, after %.1f s", time.monotonic() - began + self._patience)
