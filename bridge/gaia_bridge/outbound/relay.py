"""What crosses between the clients' requests and one upstream, besides arguments and results."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import anyio
from anyio.abc import TaskGroup
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)

from gaia_bridge.contract import ClientRequest
from gaia_bridge.jsontypes import JSON, is_object
from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.outbound.client import Deadline, Greeting, OnProgress
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text import printable

__all__ = ["Asks", "Relays"]

logger = logging.getLogger(__name__)

_PROGRESS_TOKEN: Final = "progressToken"

_OUR_HOP: Final = frozenset(
    {
        _PROGRESS_TOKEN,
        CLIENT_CAPABILITIES_META_KEY,
        CLIENT_INFO_META_KEY,
        LOG_LEVEL_META_KEY,
        PROTOCOL_VERSION_META_KEY,
    }
)
"""Keys of a request's `_meta` that speak about the connection between the client and us, and end here. Save the log
level, where the server's era has it too: it is what the server is to send for this request."""

_OUR_LEVELS: Final[Mapping[str, int]] = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO}
"""How loud our own log is about an upstream's message; everything more severe is a warning."""

_SECOND: Final = 1.0

Note = Callable[[ClientRequest], Awaitable[None]]
"""Passes one message on to a client."""


class Asks(Protocol):
    """What is needed of a connection."""

    greeting: Greeting

    async def request(
        self,
        method: str,
        params: JSON | None = None,
        *,
        on_progress: OnProgress | None = None,
        deadline: Deadline | None = None,
        rounds: bool = True,
    ) -> JSON:
        """Make one request."""
        ...


class Relays:
    """The requests of clients that one upstream works on.

    Args:
        upstream: Its name, for the log.
        limits: How often a client is told of progress, and how many messages may wait for it.
        shown: Makes text of the server fit for our log.
    """

    def __init__(self, upstream: str, limits: UpstreamLimits, shown: Callable[[str], str] = printable) -> None:
        self._upstream = upstream
        self._shown = shown
        self._limits = limits
        self._in_flight: set[_Relay] = set()

    async def call(
        self,
        tasks: TaskGroup,
        connection: Asks,
        method: str,
        params: JSON,
        request: ClientRequest,
        deadline: Deadline,
    ) -> JSON:
        """Forward one request, and on the way back what belongs to it. Cancelling it cancels the server's work.

        Args:
            tasks: Where messages to the client are sent from, if there are any.
            connection: Who is asked.
            method: The JSON-RPC method.
            params: Its parameters, without `_meta`.
            request: The client's request.
            deadline: How long it may take.

        Returns:
            The result as it came, with the `resultType` that the modern revision demands.

        Raises:
            ProtocolError: The upstream answered with a JSON-RPC error.
            UpstreamError: It did not answer as it should.
        """
        meta = _crossing(request.meta, modern=connection.greeting.modern)
        relay = _Relay(request, self._limits, tasks)
        self._in_flight.add(relay)
        try:
            result = await connection.request(
                method,
                params | {"_meta": meta} if meta else params,
                on_progress=relay.progress if _PROGRESS_TOKEN in request.meta else None,
                deadline=deadline,
            )
            await relay.passed_on()
        finally:
            self._in_flight.discard(relay)
            relay.end()
        return _crossing_back(result, modern=connection.greeting.modern)

    def log(self, params: JSON) -> None:
        """Pass a log message on.

        It names no request: only where one alone is in flight is it clear whose client it is for.

        Args:
            params: Of `notifications/message`, unchecked.
        """
        level, data, name = params.get("level"), params.get("data"), params.get("logger")
        if level not in LOG_LEVELS:
            return
        if len(self._in_flight) == 1:
            [relay] = self._in_flight
            relay.log(level, data, name if isinstance(name, str) else None)
        else:
            ours = _OUR_LEVELS.get(level, logging.WARNING)
            logger.log(ours, "upstream %r: %s", self._upstream, self._shown(str(data)))


class _Relay:
    """What comes back for one request before its answer: passed on in order, and all of it before the answer.

    Progress is thinned out where there is too much of it: then the latest is sent as soon as one may be (S-14).
    """

    def __init__(self, request: ClientRequest, limits: UpstreamLimits, tasks: TaskGroup) -> None:
        self._request = request
        self._tasks = tasks
        self._notes: deque[Note] = deque(maxlen=limits.notes)
        self._reports: deque[Note] = deque(maxlen=limits.progress_rate)
        self._reported: deque[float] = deque(maxlen=limits.progress_rate)  # when the last ones were sent
        self._wake = anyio.Event()
        self._done: anyio.Event | None = None  # set when all was passed on; there is a sender until then
        self._answered = False
        self._scope = anyio.CancelScope()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        async def report(request: ClientRequest) -> None:
            await request.report_progress(progress, total, message)

        self._reports.append(report)
        self._send()

    def log(self, level: str, data: Any, name: str | None) -> None:
        async def log(request: ClientRequest) -> None:
            await request.log(level, data, name)

        self._notes.append(log)
        self._send()

    async def passed_on(self) -> None:
        """The answer is there: send what is left, and wait for that."""
        self._answered = True
        self._wake.set()
        if self._done is not None:
            await self._done.wait()

    def end(self) -> None:
        """Send nothing more."""
        self._answered = True
        self._scope.cancel()

    def _send(self) -> None:
        if self._answered:
            return
        self._wake.set()
        if self._done is None:
            self._done = anyio.Event()
            self._tasks.start_soon(self._run, self._done)

    async def _run(self, done: anyio.Event) -> None:
        """Send until the answer is there. In a task of its own: a slow client must not keep the server's messages."""
        try:
            with self._scope:
                while await self._step():
                    pass
        except Exception:
            # The client is gone, most likely; whoever serves it will know.
            logger.debug("a message to a client was not sent", exc_info=True)
        finally:
            self._answered = True
            done.set()

    async def _step(self) -> bool:
        """Send what is due, or wait; whether there may be more."""
        self._wake = anyio.Event()
        while self._notes:
            await self._notes.popleft()(self._request)
        wait = self._pause()
        if self._reports and (wait <= 0 or self._answered):
            report = self._reports.popleft()
            self._reported.append(anyio.current_time())
            await report(self._request)
            return True
        if self._answered:
            return bool(self._notes)
        with anyio.move_on_after(wait if self._reports else math.inf):
            await self._wake.wait()
        return True

    def _pause(self) -> float:
        """Seconds until progress may be sent. If there are any, of all that waits only the latest is worth it."""
        if len(self._reported) < (self._reported.maxlen or 0):
            return 0
        pause = self._reported[0] + _SECOND - anyio.current_time()
        if pause > 0:
            while len(self._reports) > 1:
                self._reports.popleft()
        return pause


def _crossing(meta: Mapping[str, Any], *, modern: bool) -> JSON:
    """The part of a request's `_meta` that is meant for the server."""
    return {key: value for key, value in meta.items() if key not in _OUR_HOP or (modern and key == LOG_LEVEL_META_KEY)}


def _crossing_back(result: JSON, *, modern: bool) -> JSON:
    """A result as it is meant for the client: without who the server is, which only concerns our own connection."""
    meta = result.get("_meta")
    if is_object(meta) and SERVER_INFO_META_KEY in meta:
        others = {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}
        result = {key: value for key, value in result.items() if key != "_meta"} | ({"_meta": others} if others else {})
    return result if modern and "resultType" in result else result | {"resultType": "complete"}
