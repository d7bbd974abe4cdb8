"""Time limits of requests, without a sign of life and in all, and the timer that ends them.

One timer serves all requests of a connection.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.model import Progress

_GRAIN: Final = 0.001
"""Seconds by which a timer may be early: those of uvloop count milliseconds."""


class Deadline(Struct, frozen=True):
    """The time that one request may take, in seconds."""

    idle: float
    """The limit without a sign of life; progress starts this time anew."""
    cap: float
    """The limit in all, whatever progress is reported."""


class Clocks:
    """The clocks of the requests in flight on one connection. Made in the event loop.

    The timer is set for the earliest end, and looks when it rings whether that is still the end: requests are answered
    long before, so that most of them never touch it.
    """

    def __init__(self) -> None:
        self.running: dict[int, Clock] = {}
        """The running clocks, by the ids of their requests."""
        self.loop = asyncio.get_running_loop()
        self.rings_at = math.inf
        """The time at which the timer rings next."""
        self.is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Expect no more requests; those in flight end in time. May be called again."""
        self.is_closed = True
        if not self.running:
            self._stop_timer()

    def ring_at(self, when: float) -> None:
        """Set the timer for that time, unless it rings before."""
        if when < self.rings_at:
            self._stop_timer()
            self.rings_at = when
            self._timer = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer, self.rings_at = None, math.inf
        soon = self.loop.time() + _GRAIN
        for clock in [clock for clock in self.running.values() if not clock.is_up]:
            if clock.ends_at <= soon:
                clock.interrupt()
            else:
                self.ring_at(clock.ends_at)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self.rings_at = None, math.inf


class Clock:
    """Ends one request in flight when its time is up. Runs from when it is made until it is left.

    Entered around the waiting for the answer.

    Args:
        number: The id of the request.
        age: Seconds without a sign of life that have passed already.

    Raises:
        TimeoutError: When it is left, if its time was up.
    """

    __slots__ = (
        "_cancelling",
        "_cap_at",
        "_clocks",
        "_deadline",
        "_holds",
        "_number",
        "_task",
        "ends_at",
        "is_over",
        "is_up",
        "on_progress",
    )

    def __init__(self, clocks: Clocks, number: int, deadline: Deadline, age: float = 0.0) -> None:
        now = clocks.loop.time()
        self._clocks = clocks
        self._number = number
        self._deadline = deadline
        idle_at, cap_at = now + deadline.idle - age, now + deadline.cap
        self._cap_at = cap_at
        self._holds = 0
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.is_over = False
        """Whether the request has ended; a task that held its clock may release the clock later."""
        self.is_up = False
        """Whether the request took too long."""
        self.ends_at = idle_at if idle_at < cap_at else cap_at
        """The end of the request's time, by the event loop's clock."""
        self.on_progress: Callable[[Progress], None] | None = None
        """Called with each report of progress, which is a sign of life; the idle time counts anew if `None`."""
        clocks.running[number] = self
        if self.ends_at < clocks.rings_at:
            clocks.ring_at(self.ends_at)

    def __enter__(self) -> Clock:
        task = asyncio.current_task(self._clocks.loop)
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        clocks, self.is_over, self.on_progress = self._clocks, True, None
        del clocks.running[self._number]
        if clocks.is_closed:
            clocks.close()
        # Whoever else wants the task cancelled has asked for that once more.
        if self.is_up and task is not None and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def interrupt(self) -> None:
        """Interrupt the request, because its time is up."""
        self.is_up = True
        if self._task is not None:
            self._task.cancel()

    def restart(self, report: object = None) -> None:
        """Count the idle time anew: there was a sign of life."""
        if not self._holds:
            self._end_at(min(self._clocks.loop.time() + self._deadline.idle, self._cap_at))

    def hold(self) -> None:
        """Expect no sign of life until `release`, which goes with each `hold`."""
        self._holds += 1
        self._end_at(self._cap_at)

    def release(self) -> None:
        """Expect signs of life again, from now on."""
        self._holds -= 1
        self.restart()

    @property
    def seconds(self) -> float:
        """The limit that ends the request: the idle time or the time in all."""
        return self._deadline.idle if self.ends_at < self._cap_at else self._deadline.cap

    def _end_at(self, when: float) -> None:
        if not self.is_over and not self.is_up:
            self.ends_at = when
            self._clocks.ring_at(when)


class Interruptible:
    """A block of one task, which goes on behind it when the block is interrupted.

    It keeps to the rules of `asyncio.timeout`: what cancels the task from elsewhere at the same time comes first.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._task: asyncio.Task[Any] | None = None
        self._before = 0

    def interrupt(self) -> None:
        """End the block, if its task is in it."""
        if self._task is not None and not self.interrupted:
            self.interrupted = True
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("there is no task to interrupt")
        self._before = self._task.cancelling()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        task, self._task = self._task, None
        if not self.interrupted or task is None:
            return False
        return task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError)
