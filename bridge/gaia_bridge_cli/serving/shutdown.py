"""How serving ends: gracefully on the first signal, at once on the second, and in bounded time whatever runs.

Agent code may hang in a thread for ever; a process that an editor started must end all the same.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

import anyio
import click
from anyio.abc import TaskStatus

from gaia_bridge.constants import STOP_DEADLINE
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.text.escaping import one_line
from gaia_bridge_cli.deadline import Deadline
from gaia_bridge_cli.output import counted

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_NAMES = 5
"""How many calls that are waited for are named."""

_TEARDOWN = 2.0
"""Seconds beyond the grace of open requests to put everything away, where no upstream servers run."""


class Shutdown:
    """Watches for the end of one run. Make it on the event loop.

    Args:
        deadline: Bounds what comes after the end; started.
        grace: Seconds that open requests have to finish.
        has_children: Whether upstream servers run, asked when it matters. A process that is gone before they are would
            leave them to its guardian.

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
        self._signalled = False

    async def watch(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Act on SIGINT and SIGTERM until cancelled."""
        with anyio.open_signal_receiver(*_SIGNALS) as signals, ExitStack() as stack:
            stack.callback(FORKS.in_child(_handle_no_signals))
            # The loop hears of signals by itself. The handlers hear of them also where the loop is held.
            for number in _SIGNALS:
                signal.signal(number, self._note)
            task_status.started()
            async for number in signals:
                if number == signal.SIGINT:
                    click.echo(_stopping(waits=self.stop != self.scope.cancel), err=True)
                else:
                    logger.info("%s: ending; once more ends at once", signal.Signals(number).name)
                self.stop()

    def begin(self) -> None:
        """Serving has ended by itself: what remains is to put things away."""
        self._deadline.begin(STOP_DEADLINE if self._has_children() else _TEARDOWN)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._signalled:
            os._exit(128 + number)
        self._signalled = True
        self._deadline.begin(STOP_DEADLINE if self._has_children() else min(STOP_DEADLINE, self._grace + _TEARDOWN))


def _stopping(*, waits: bool) -> str:
    """What is said to somebody who has pressed Ctrl-C.

    Args:
        waits: Whether calls that run are waited for.
    """
    names = Dispatcher.calls_in_flight() if waits else []
    waiting = ""
    if names:
        more = len(names) - _NAMES
        shown = ", ".join(one_line(name, 60) for name in names[:_NAMES]) + (f" and {more} more" if more > 0 else "")
        waiting = f"; waiting for {counted(len(names), 'call')} ({shown})"
    line = f"Stopping{waiting}. Ctrl-C again stops at once."
    return f"\r{line}" if sys.stderr.isatty() else line  # over the ^C of the terminal


def _handle_no_signals() -> None:
    """In a forked child, which has our handlers, and the pipe through which our loop hears of signals."""
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
