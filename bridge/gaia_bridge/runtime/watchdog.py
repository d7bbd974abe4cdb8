"""Logs that an event loop is blocked, with the stack of the code that blocks it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import dropwhile
from types import CodeType, FrameType
from typing import Final

from gaia_bridge.constants import LOOP_PATIENCE, LOOP_SILENCE, OWN_PACKAGES

logger = logging.getLogger(__name__)

_FRAMES: Final = 12
"""The number of innermost frames of the stack in the log; those above belong to the code that started the loop."""


@contextmanager
def watching(
    patience: float = LOOP_PATIENCE,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    name: str = "the event loop",
    is_of_agent: bool = False,
) -> Generator[None]:
    """Watch an event loop from another thread, which checks every `patience` seconds whether the loop is idle, and if
    not schedules a callback as a sign of life. An idle loop is not woken.

    To be used on the thread that runs the loop.

    Args:
        patience: Seconds without a sign of life after which the loop is logged as blocked.
        loop: The loop; the running one if `None`.
        name: The name of the loop in the log.
        is_of_agent: Whether the loop runs the coroutines of an agent. Then the log shows the frames of the agent, names
            the function that blocks, and says how to change it.
    """
    watchdog = _Watchdog(loop or asyncio.get_running_loop(), name, patience, is_of_agent=is_of_agent)
    watchdog.thread.start()
    try:
        yield
    finally:
        watchdog.stop()


class _Watchdog:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        patience: float,
        silence: float = LOOP_SILENCE,
        *,
        is_of_agent: bool = False,
    ) -> None:
        self._is_of_agent = is_of_agent
        self._patience = patience
        self._silence = silence
        self._loop = loop
        self._name = name
        self._held = threading.get_ident()
        self._runner: CodeType | None = None
        """The code that runs a loop which is not in Python (uvloop): while its frame is innermost, the loop waits."""
        self._ended = threading.Event()
        self._alive = threading.Event()
        self._logged = float("-inf")
        """The time of the last line in the log."""
        self._unlogged = 0
        """The blocks since then."""
        self.thread = threading.Thread(target=self._watch, name="gaia-watchdog", daemon=True)

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
                self._log()

    def _is_resting(self) -> bool:
        """Whether the loop is idle."""
        frame = self._innermost()
        return frame is not None and (frame.f_code is self._runner or _module(frame) == "selectors")

    def _innermost(self) -> FrameType | None:
        return sys._current_frames().get(self._held)  # pyright: ignore[reportPrivateUsage] - there is no other way

    def _give_sign(self) -> None:
        """Note that the loop called this: the sign of life."""
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        self._runner = None if _module(caller) == "asyncio.events" else caller.f_code
        self._alive.set()

    def _came(self) -> bool:
        """Whether the sign of life came in time, or is no evidence because the whole process stood still."""
        began, worked = time.monotonic(), time.process_time()
        if self._alive.wait(self._patience):
            return self._stood_still(began, worked) or time.monotonic() - began < 2 * self._patience
        return self._ended.is_set() or self._stood_still(began, worked)

    def _stood_still(self, began: float, worked: float) -> bool:
        """Whether the process was stopped, or the machine slept: this thread woke late, and no thread worked."""
        passed = time.monotonic() - began
        return passed > 2 * self._patience and time.process_time() - worked < passed / 2

    def _log(self) -> None:
        frame = self._innermost()
        began = time.monotonic()
        is_logged = began - self._logged >= self._silence
        if is_logged:
            self._log_held([] if frame is None else list(traceback.walk_stack(frame))[::-1])
            self._logged, self._unlogged = began, 0
        else:
            self._unlogged += 1
        while not (self._alive.wait(self._patience) or self._ended.is_set()):
            pass
        if is_logged:
            logger.warning("%s goes on, after %.1f s", self._name, time.monotonic() - began + self._patience)

    def _log_held(self, frames: list[tuple[FrameType, int]]) -> None:
        text, parts = "%s has been held for %g s, and still is", [self._name, self._patience]
        if self._unlogged:
            text += "; so it was %d times since that was said last"
            parts.append(self._unlogged)
        if self._is_of_agent and (of_agent := list(dropwhile(lambda item: _is_around_agent(item[0]), frames))):
            frames = of_agent
            text += "; %s blocks it: make it a plain `def`, which runs in a thread, or `await` in it"
            parts.append(f"{frames[0][0].f_code.co_qualname}()")
        stack = "".join(traceback.StackSummary.extract(frames[-_FRAMES:]).format()).rstrip() or None
        record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, text, tuple(parts), None, sinfo=stack)
        if logger.isEnabledFor(logging.WARNING):
            logger.handle(record)


def _is_around_agent(frame: FrameType) -> bool:
    """Return whether a frame is of the bridge or of the loop, which call an agent's coroutines."""
    package = str(_module(frame)).partition(".")[0]
    return package in OWN_PACKAGES or package in sys.stdlib_module_names


def _module(frame: FrameType) -> object:
    return frame.f_globals.get("__name__")
