"""Progress and log messages of one request on their way to its client: in order, bounded, and before its answer."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.contract import ClientRequest
from gaia_bridge.settings import UpstreamLimits

__all__ = ["Note", "Notes"]

logger = logging.getLogger(__name__)

_SECOND = 1.0

Note = Callable[[ClientRequest], Awaitable[None]]
"""Passes one message on to a client."""


class Notes:
    """What waits to be told to a client. There is a task as long as something does, and none otherwise.

    Progress is thinned out where there is too much of it: then the latest is sent as soon as one may be (S-14). While
    nobody is there to be told, because the call is parked, everything waits.

    Args:
        tasks: Where messages are sent from: a slow client must not keep the server's messages.
        limits: How often a client is told of progress, and how many messages may wait for it.
    """

    def __init__(self, tasks: TaskGroup, limits: UpstreamLimits) -> None:
        self._tasks = tasks
        self._others: deque[Note] = deque(maxlen=limits.notes)
        self._reports: deque[Note] = deque(maxlen=limits.progress_rate)
        self._reported: deque[float] = deque(maxlen=limits.progress_rate)  # when the last ones were sent
        self._request: ClientRequest | None = None
        self._wake: anyio.Event | None = None  # these two only from when there is something to tell
        self._scope: anyio.CancelScope | None = None
        self._sending: anyio.Event | None = None  # set when all is told; there is a task until then
        self._urgent = False
        self._over = False

    def attach(self, request: ClientRequest) -> None:
        """Whom to tell from now on."""
        self._request, self._urgent = request, False
        if self._others or self._reports:
            self._send()

    def detach(self) -> None:
        """Nobody is there to be told; `flush` first."""
        self._request = None

    def progress(self, note: Note) -> None:
        """Tell of progress."""
        self._reports.append(note)
        self._send()

    def add(self, note: Note) -> None:
        """Tell anything else."""
        self._others.append(note)
        self._send()

    async def flush(self) -> None:
        """Tell what waits, without a pause; returns when that is done."""
        self._urgent = True
        self._rouse()
        if self._sending is not None:
            await self._sending.wait()

    def end(self) -> None:
        """Tell nothing more."""
        self._over = True
        if self._scope is not None:
            self._scope.cancel()

    def _rouse(self) -> None:
        if self._wake is not None:
            self._wake.set()

    def _send(self) -> None:
        if self._over or self._request is None:
            return
        self._rouse()
        if self._sending is None:
            self._sending = anyio.Event()
            self._scope = anyio.CancelScope()
            self._tasks.start_soon(self._run, self._request, self._sending, self._scope)

    async def _run(self, request: ClientRequest, done: anyio.Event, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                while self._others or self._reports:
                    await self._step(request)
        except Exception:
            # The client is gone, most likely; whoever serves it will know.
            logger.debug("a message to a client was not sent", exc_info=True)
            self._over = True
        finally:
            self._sending = None
            done.set()

    async def _step(self, request: ClientRequest) -> None:
        """Send what is due, or wait."""
        wake = self._wake = anyio.Event()
        while self._others:
            await self._others.popleft()(request)
        if not self._reports:
            return
        pause = self._pause()
        if pause > 0 and not self._urgent:
            with anyio.move_on_after(pause):
                await wake.wait()
            return
        report = self._reports.popleft()
        self._reported.append(anyio.current_time())
        await report(request)

    def _pause(self) -> float:
        """Seconds until progress may be sent. If there are any, of all that waits only the latest is worth it."""
        if len(self._reported) < (self._reported.maxlen or 0):
            return 0
        pause = self._reported[0] + _SECOND - anyio.current_time()
        if pause > 0:
            while len(self._reports) > 1:
                self._reports.popleft()
        return pause
