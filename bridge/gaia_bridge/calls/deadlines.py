"""How long a request may take, without a sign of life and in all, and what ends it.

One timer serves all requests of a connection.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any, Final

from msgspec import Struct

_GRAIN: Final = 0.001
"""Seconds by which a timer may be early: those of uvloop count milliseconds."""


class Deadline(Struct, frozen=True):
    """How long one request may take, in seconds."""

    idle: float
    """Without a sign of life; progress starts it anew."""
    cap: float
    """In all, whatever progress is reported."""


class Clocks:
    """Those of the requests in flight on one connection. Made in the event loop.

    The timer is set for the earliest end, and looks when it rings whether that is still the end: requests are answered
    long before, so that most of them never touch it.
    """

    def __init__(self) -> None:
        self.running: dict[int, Clock] = {}
        """By the ids of the requests."""
        self.loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf
        self._is_closed = False

    def start(self, number: int, deadline: Deadline) -> Clock:
        """The clock of a request that begins now; it runs until it is stopped.

        Args:
            deadline: How long it may take.
        """
        clock = self.running[number] = Clock(self, deadline, self.loop.time())
        if clock.ends_at < self._rings_at:
            self.ring_at(clock.ends_at)
        return clock

    def stop(self, number: int) -> None:
        """The request has ended."""
        self.running.pop(number).is_over = True
        if self._is_closed and not self.running:
            self._stop_timer()

    def close(self) -> None:
        """No request begins any more; those in flight end in time. May be called twice."""
        self._is_closed = True
        if not self.running:
            self._stop_timer()

    def now(self) -> float:
        """What the event loop's clock says."""
        return self.loop.time()

    def ring_at(self, when: float) -> None:
        """Look then, or before, at what is over."""
        if when < self._rings_at:
            self._stop_timer()
            self._rings_at = when
            self._timer = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, math.inf
        soon = self.loop.time() + _GRAIN
        for clock in [clock for clock in self.running.values() if not clock.is_up]:
            if clock.ends_at <= soon:
                clock.interrupt()
            else:
                self.ring_at(clock.ends_at)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._rings_at = None, math.inf


class Clock:
    """Ends one request in flight when its time is up. Entered around the waiting for its answer.

    Raises:
        TimeoutError: When it is left, if that was so.
    """

    __slots__ = ("_cancelling", "_cap_at", "_clocks", "_deadline", "_holds", "_task", "ends_at", "is_over", "is_up")

    def __init__(self, clocks: Clocks, deadline: Deadline, now: float) -> None:
        self._clocks = clocks
        self._deadline = deadline
        idle_at, cap_at = now + deadline.idle, now + deadline.cap
        self._cap_at = cap_at
        self._holds = 0
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.is_over = False
        """Whether the request has ended; who held its clock may release it later."""
        self.is_up = False
        """Whether it was too late."""
        self.ends_at = idle_at if idle_at < cap_at else cap_at
        """When its time is up, by the event loop's clock."""

    def __enter__(self) -> None:
        task = asyncio.current_task(self._clocks.loop)
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        # Whoever else wants the task cancelled has asked for that once more.
        if self.is_up and task is not None and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def interrupt(self) -> None:
        """The time is up."""
        self.is_up = True
        if self._task is not None:
            self._task.cancel()

    def restart(self) -> None:
        """There was a sign of life."""
        if not self._holds:
            self._end_at(min(self._clocks.now() + self._deadline.idle, self._cap_at))

    def restarted(self, report: object) -> None:
        """Progress was reported, which is a sign of life."""
        self.restart()

    def hold(self) -> None:
        """No sign of life is expected until `release`, which goes with each `hold`."""
        self._holds += 1
        self._end_at(self._cap_at)

    def release(self) -> None:
        """A sign of life is expected again, from now on."""
        self._holds -= 1
        self.restart()

    @property
    def seconds(self) -> float:
        """What was waited for in vain."""
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
        """Whether somebody has ended it."""
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
