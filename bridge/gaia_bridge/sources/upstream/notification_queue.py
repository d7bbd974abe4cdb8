"""Progress and log messages of one request on their way to its client: in order, bounded, and before its answer."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.contract import ClientRequest
from gaia_bridge.settings import UpstreamLimits

logger = logging.getLogger(__name__)

_SECOND = 1.0
Note = Callable[[ClientRequest], Awaitable[None]]
"""Passes one message on to a client."""


class NotificationQueue:
    """The notifications that wait for one client. A task sends them; it only exists while there are any.

    If there is too much progress, only the latest report is sent, as soon as the rate allows. While the call is parked,
    there is no client, and everything waits.

    Args:
        tasks: The task group that sends messages: a slow client must not hold up the server's messages.
    """

    def __init__(self, tasks: TaskGroup, limits: UpstreamLimits) -> None:
        self._tasks = tasks
        self._patience = limits.call_timeout
        self._others = _NoteQueue(limits.notes)
        self._reports = _NoteQueue(limits.progress_rate)
        self._reported: deque[float] = deque(maxlen=limits.progress_rate)  # when the last ones were sent
        self._request: ClientRequest | None = None
        self._wake: anyio.Event | None = None  # only from when there is something to tell
        self._sending: anyio.CancelScope | None = None  # there is a task as long as there is this
        self._progressed: anyio.Event | None = None  # set when a message was sent, or none will be
        self._urgent = False
        self._over = False

    def attach(self, request: ClientRequest) -> None:
        """Set the request whose client gets notifications from now on."""
        self._request, self._urgent = request, False
        if self._others or self._reports:
            self._send()

    def detach(self) -> None:
        """Keep notifications from now on: there is no client. Call `flush` first."""
        self._request = None

    def progress(self, note: Note) -> None:
        """Queue a progress report."""
        self._reports.add(note)
        self._send()

    def add(self, note: Note) -> None:
        """Queue any other notification."""
        self._others.add(note)
        self._send()

    async def flush(self) -> None:
        """Send the present content of the queue without a pause; return when it is sent.

        Neither a server that sends without end nor a client that does not read can delay an answer.
        """
        if not self._is_sending:
            return
        last, last_report = self._others.added, self._reports.added
        self._urgent = True
        self._rouse()
        with anyio.move_on_after(self._patience):
            while self._is_sending and (self._others.gone < last or self._reports.gone < last_report):
                self._progressed = anyio.Event()
                await self._progressed.wait()

    def end(self) -> None:
        """Send nothing more."""
        self._over = True
        if self._sending is not None:
            self._sending.cancel()

    @property
    def _is_sending(self) -> bool:
        return self._sending is not None

    def _rouse(self) -> None:
        if self._wake is not None:
            self._wake.set()

    def _tell(self) -> None:
        if self._progressed is not None:
            self._progressed.set()

    def _send(self) -> None:
        if self._over or self._request is None:
            return
        self._rouse()
        if self._sending is None:
            self._sending = anyio.CancelScope()
            self._tasks.start_soon(self._run, self._sending)

    async def _run(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                while (request := self._request) is not None and (self._others or self._reports):
                    await self._step(request)
                    self._tell()
        except Exception:
            # The client is gone, most likely; its connection will notice.
            logger.debug("a message to a client was not sent", exc_info=True)
            self._over = True
        finally:
            self._sending = None
            self._tell()

    async def _step(self, request: ClientRequest) -> None:
        wake = self._wake = anyio.Event()
        for _ in range(len(self._others)):  # no more: a server can write faster than a client reads
            if self._request is not request:
                return
            await self._others.tell_next(request)
        if not self._reports:
            return
        pause = self._pause()
        if pause > 0 and not self._urgent:
            with anyio.move_on_after(pause):
                await wake.wait()
            return
        self._reported.append(anyio.current_time())
        await self._reports.tell_next(request)

    def _pause(self) -> float:
        """Return seconds until progress may be sent. If there are any, drop all waiting reports but the latest."""
        if len(self._reported) < (self._reported.maxlen or 0):
            return 0
        pause = self._reported[0] + _SECOND - anyio.current_time()
        if pause > 0:
            self._reports.drop_all_but_the_latest()
        return pause


class _NoteQueue:
    """Notifications in order of arrival. When there are too many, the oldest are dropped."""

    def __init__(self, most: int) -> None:
        self._notes: deque[Note] = deque()
        self._most = most
        self.added = 0
        """The number of notifications that came."""
        self.gone = 0
        """The number of those that were sent or dropped."""

    def __len__(self) -> int:
        return len(self._notes)

    def add(self, note: Note) -> None:
        self.added += 1
        self._notes.append(note)
        if len(self._notes) > self._most:
            self._drop_oldest()

    async def tell_next(self, request: ClientRequest) -> None:
        if not self._notes:  # dropped while the one before was sent
            return
        try:
            await self._notes.popleft()(request)
        finally:
            self.gone += 1

    def drop_all_but_the_latest(self) -> None:
        while len(self._notes) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._notes.popleft()
        self.gone += 1
