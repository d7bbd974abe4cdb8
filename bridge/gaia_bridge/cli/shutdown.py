"""How the program ends: gracefully on the first signal, at once on the second, and in bounded time whatever runs.

F-115, F-116, F-118. Agent code may hang in a thread for ever; a process that an editor started must end all the same.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from gaia_bridge.cli.streams import drain

__all__ = ["Deadline", "Shutdown"]

logger = logging.getLogger(__name__)

_TEARDOWN = 2.0
"""Seconds beyond the grace of open requests to put everything away."""

_CHILDREN = 7.0
"""Seconds more where upstream servers run: what a child that ignores the end of its input is given before it is killed.
A process that is gone sooner would leave it behind."""

_THREADS = 0.5
"""Seconds for threads that agents started themselves, once nobody waits for them any more."""


class Deadline:
    """Ends the process from a thread of its own, whatever the others do. Only the first deadline counts."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def begin(self, seconds: float) -> None:
        """The process is gone in that many seconds."""
        if self._timer is None:
            self._timer = threading.Timer(seconds, _end_now)
            self._timer.daemon = True
            self._timer.start()

    def finish(self) -> None:
        """Everything was put away. Only a thread that keeps the interpreter from ending is still under a deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = (threading.current_thread(), threading.main_thread())
        if any(not thread.daemon and thread not in waiting for thread in threading.enumerate()):
            self.begin(_THREADS)


class Shutdown:
    """Watches for the end of one run. Make it on the event loop.

    Args:
        deadline: Bounds what comes after the end.
        grace: Seconds that open requests have to finish.
        has_children: Whether upstream servers run, asked when it matters.

    Attributes:
        scope: What runs until the end; cancelled by the first signal.
        stop: What the first signal calls instead, once there is something gentler.
    """

    def __init__(self, deadline: Deadline, grace: float, *, has_children: Callable[[], bool]) -> None:
        self.scope = anyio.CancelScope()
        self.stop: Callable[[], None] = self.scope.cancel
        self._deadline = deadline
        self._grace = grace
        self._has_children = has_children

    async def watch(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Act on SIGINT and SIGTERM until cancelled."""
        signalled = False
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for number in signals:
                if signalled:
                    os._exit(128 + number)
                signalled = True
                logger.info("%s: ending; once more ends at once", signal.Signals(number).name)
                self._deadline.begin(self._grace + self._teardown())
                self.stop()

    def begin(self) -> None:
        """Serving has ended by itself: what remains is to put things away."""
        self._deadline.begin(self._teardown())

    def _teardown(self) -> float:
        return _TEARDOWN + (_CHILDREN if self._has_children() else 0)


def _end_now() -> None:
    logger.warning("something does not end; the process does")
    drain()
    os._exit(0)
