"""Shows that a launcher downloads a server, for how long already, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from gaia_bridge.config.launching.launchers import is_of_launcher, launcher_in
from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge_cli.servers.common import Activity

_FIRST: Final = 5
"""Seconds before a download is told of: what is there already has mostly started by then."""

_LOOK: Final = 0.2
"""Seconds between two looks at how the start is."""

_EVERY: Final = 30
"""Seconds between two lines of it where there is no terminal."""


class LauncherProgress:
    """What one start of a server waits for, until the server is there.

    Args:
        spec: The server.
        limits: How long its start may take.
        shown: Where it is said.
    """

    def __init__(self, spec: ServerSpec, limits: UpstreamLimits, shown: Activity) -> None:
        self._name = spec.name
        self._launcher = launcher_in((spec.command, *spec.args)) if isinstance(spec, StdioServerSpec) else ""
        self._limits = limits
        self._shown = shown
        self._last = ""

    def heard(self, line: str) -> None:
        """A line of error output came."""
        self._last = line
        if not is_of_launcher(line):
            self._launcher = ""
        if not self._launcher:
            self._shown.doing(f"{self._name}: {line}")

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show it to the end of the block."""
        failure: BaseException | None = None
        starting = asyncio.current_task()
        assert starting is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tick, starting)
            try:
                yield
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                failure = error  # raised again below, not in the task group, which would wrap it
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _tick(self, starting: asyncio.Task[object]) -> None:
        began = anyio.current_time()
        most = round(self._limits.start_timeout)
        due = _FIRST
        stopping = False
        while self._launcher and not self._shown.is_connected:
            was_stopping, stopping = stopping, bool(starting.cancelling())  # by Ctrl-C, or because its time is over
            if was_stopping and stopping:  # a program that has exited is put away between two looks
                self._shown.doing("stopping")
                self._shown.say(f"Stopping: waiting for {self._launcher} to remove its unfinished download")
                return
            seconds = round(anyio.current_time() - began)
            if seconds >= _FIRST:  # a terminal shows the seconds itself
                text = f"{self._launcher} is downloading {self._name}"
                self._shown.doing(f"{text}: {self._last}" if self._last else text)
                if seconds >= due and not self._shown.is_live:
                    due += _EVERY
                    self._shown.say(f"{text} ({seconds} s); it has up to {most} s, Ctrl-C stops it")
            await anyio.sleep(_LOOK)
