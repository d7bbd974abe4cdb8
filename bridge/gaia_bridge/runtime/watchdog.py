"""Names an event loop that is held: what should never block did, and the log says where."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Final

from gaia_bridge.constants import LOOP_PATIENCE, LOOP_SILENCE

logger = logging.getLogger(__name__)

_FRAMES: Final = 12
"""Frames of the stack that are shown, the innermost; those above them are of whoever started the loop."""


@contextmanager
def watching(
    patience: float = LOOP_PATIENCE,
    silence: float = LOOP_SILENCE,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    name: str = "the event loop",
) -> Generator[None]:
    """Watch an event loop, from a thread of its own, which looks once in that time whether the loop waits for something
    to happen, and if not asks it for a sign of life. A loop that has nothing to do is left asleep.

    To be used on the thread that runs the loop.

    Args:
        patience: Seconds without one after which it is named.
        silence: Seconds after that in which it is not named again, but counted.
        loop: The loop; the running one if `None`.
        name: What it is called.
    """
    watchdog = _Watchdog(loop or asyncio.get_running_loop(), name, patience, silence)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class _Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, patience: float, silence: float) -> None:
        self._patience = patience
        self._silence = silence
        self._loop = loop
        self._name = name
        self._held = threading.get_ident()
        self._runner: CodeType | None = None
        """What runs the loop, where the loop is no Python (uvloop): while nothing else does, the loop waits."""
        self._ended = threading.Event()
        self._alive = threading.Event()
        self._told = float("-inf")
        self._untold = 0
        self._thread = threading.Thread(target=self._watch, name="gaia-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._alive.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._patience):
            if self._is_resting():
                continue
            self._alive.clear()
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._give_sign)
            if not self._came():
                self._tell()

    def _is_resting(self) -> bool:
        """Whether the loop waits for something to happen."""
        frame = self._innermost()
        return frame is not None and (frame.f_code is self._runner or _module(frame) == "selectors")

    def _innermost(self) -> FrameType | None:
        return sys._current_frames().get(self._held)  # pyright: ignore[reportPrivateUsage] - there is no other way

    def _give_sign(self) -> None:
        """Called by the loop."""
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        self._runner = None if _module(caller) == "asyncio.events" else caller.f_code
        self._alive.set()

    def _came(self) -> bool:
        """Whether the sign of life came in time, or nobody can say because all of us stood still."""
        began, worked = time.monotonic(), time.process_time()
        if self._alive.wait(self._patience):
            return self._stood_still(began, worked) or time.monotonic() - began < 2 * self._patience
        return self._ended.is_set() or self._stood_still(began, worked)

    def _stood_still(self, began: float, worked: float) -> bool:
        """Whether the process was stopped, or the machine slept: we were not woken in time, and nobody worked."""
        passed = time.monotonic() - began
        return passed > 2 * self._patience and time.process_time() - worked < passed / 2

    def _tell(self) -> None:
        frame = self._innermost()
        began = time.monotonic()
        is_told = began - self._told >= self._silence
        if is_told:
            stack = "".join(traceback.format_stack(frame)[-_FRAMES:]).rstrip() if frame is not None else None
            self._say_held(stack)
            self._told, self._untold = began, 0
        else:
            self._untold += 1
        while not (self._alive.wait(self._patience) or self._ended.is_set()):
            pass
        if is_told:
            logger.warning("%s goes on, after %.1f s", self._name, time.monotonic() - began + self._patience)

    def _say_held(self, stack: str | None) -> None:
        said, parts = "%s has been held for %g s, and still is", [self._name, self._patience]
        if self._untold:
            said += "; so it was %d times since that was said last"
            parts.append(self._untold)
        record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, said, tuple(parts), None, sinfo=stack)
        if logger.isEnabledFor(logging.WARNING):
            logger.handle(record)


def _module(frame: FrameType) -> object:
    return frame.f_globals.get("__name__")
