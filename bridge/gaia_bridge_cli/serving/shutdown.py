"""Ends serving: gracefully on the first signal, at once on the second, and in bounded time whatever code runs.

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
from typing import Final

import anyio
import click
from anyio.abc import TaskStatus

from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.text.escaping import one_line
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.output import counted

logger = logging.getLogger(__name__)

STOP_DEADLINE: Final = 8.0
"""Seconds from a signal, or from the end of input, to the end of `gaia-bridge serve`, whatever hangs: Docker and
editors kill after ten. `HttpLimits.shutdown_grace` for the calls in flight, then `UpstreamLimits.stop_grace` and
`terminate_grace` for children, and a second for everything else."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_NAMES = 5
"""The most calls in flight that are named."""

_TEARDOWN = 2.0
"""Seconds beyond the grace of open requests for the cleanup, where no upstream servers run."""


class Shutdown:
    """Watches for the end of one run. Make it on the event loop.

    Args:
        deadline: Bounds the cleanup after the end; started.
        grace: Seconds that open requests have to finish.
        has_children: Returns whether upstream servers run. A process that is gone before they are would leave them to
            its guardian.
        calls: Returns the names of what clients wait for.

    Attributes:
        scope: Everything that runs until the end; cancelled by the first signal.
        stop: Called by the first signal instead, if there is a gentler way.
    """

    def __init__(
        self, deadline: ExitDeadline, grace: float, *, has_children: Callable[[], bool], calls: Callable[[], list[str]]
    ) -> None:
        self.scope = anyio.CancelScope()
        self.stop: Callable[[], None] = self.scope.cancel
        self._deadline = deadline
        self._grace = grace
        self._has_children = has_children
        self._calls = calls
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
                    click.echo(_stopping(self._calls() if self.stop != self.scope.cancel else []), err=True)
                else:
                    logger.info("%s: ending; once more ends at once", signal.Signals(number).name)
                self.stop()

    def begin(self) -> None:
        """Bound the cleanup after serving has ended by itself."""
        self._deadline.begin(STOP_DEADLINE if self._has_children() else _TEARDOWN)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._signalled:
            os._exit(128 + number)  # the second signal: no cleanup, which may hang
        self._signalled = True
        self._deadline.begin(STOP_DEADLINE if self._has_children() else min(STOP_DEADLINE, self._grace + _TEARDOWN))


def _stopping(names: list[str]) -> str:
    """Return the message for a user who has pressed Ctrl-C.

    Args:
        names: The calls in flight that are waited for.
    """
    waiting = ""
    if names:
        more = len(names) - _NAMES
        shown = ", ".join(one_line(name, 60) for name in names[:_NAMES]) + (f" and {more} more" if more > 0 else "")
        waiting = f"; waiting for {counted(len(names), 'call')} ({shown})"
    line = f"Stopping{waiting}. Ctrl-C again stops at once."
    return f"\r{line}" if sys.stderr.isatty() else line  # over the ^C of the terminal


def _handle_no_signals() -> None:
    """Remove our signal handlers, and the pipe through which our loop is notified, in a forked child."""
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
