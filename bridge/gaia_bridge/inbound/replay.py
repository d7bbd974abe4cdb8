"""What a client missed while its event stream was broken: a bounded memory for each legacy session (S-11).

Revisions up to 2025-11-25 let a client resume a stream with `Last-Event-ID` (basic/transports, "Resumability and
Redelivery"); 2026-07-28 has no such thing. The SDK leaves the store to us, but hands one and the same store to all
sessions of a manager and names streams by bare request ids, so it would mix sessions (F-097). Here each has its own.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import Any, NamedTuple

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import (
    GET_STREAM_KEY,
    EventCallback,
    EventId,
    EventMessage,
    EventStore,
    StreamId,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

from gaia_bridge.settings import HttpLimits

__all__ = ["ReplayStore", "ReplayingSessionManager"]

EVENT_OVERHEAD = 512
"""Bytes that an event counts for besides its message, so that many small ones are bounded as well."""


class ReplayStore(EventStore):
    """The last events of one session, bounded by count and by bytes; the oldest go first.

    Args:
        max_events: How many events are kept.
        max_bytes: How many bytes they may have, serialised. An event that is larger alone cannot be replayed.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._prefix = secrets.token_urlsafe(12)  # an id of another session, or a guess, matches nothing
        self._events: deque[_Event] = deque()
        self._first = 0
        self._bytes = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep one event; `message` is `None` for the cursor that primes a stream."""
        number = self._first + len(self._events)
        size = EVENT_OVERHEAD
        if message is not None:
            size += len(message.model_dump_json(by_alias=True, exclude_unset=True))
        self._events.append(_Event(stream_id, message, size))
        self._bytes += size
        while len(self._events) > self._max_events or self._bytes > self._max_bytes:
            self._bytes -= self._events.popleft().size
            self._first += 1
        return self._event_id(number)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send what followed that event on its stream, in order.

        Returns:
            The stream, if more is to come on it. `None` ends the resumed stream: the id is unknown, forged or no
            longer kept, or the stream has carried its response, after which nothing follows.
        """
        number = self._number(last_event_id)
        if number is None:
            return None
        last = self._events[number - self._first]
        if _ends_stream(last):
            return None
        # Look again after each event that was sent: while the client was reading, more may have been stored.
        while True:
            number += 1
            if number < self._first:
                return None  # dropped meanwhile: a gap must not look like a complete replay
            if number >= self._first + len(self._events):
                return last.stream_id
            event = self._events[number - self._first]
            if event.stream_id != last.stream_id or event.message is None:
                continue
            await send_callback(EventMessage(event.message, self._event_id(number)))
            if _ends_stream(event):
                return None

    def _event_id(self, number: int) -> EventId:
        return f"{self._prefix}-{number}"

    def _number(self, event_id: EventId) -> int | None:
        """Return the number in an id that this store gave out and whose event it still has."""
        for number in range(self._first, self._first + len(self._events)):
            if self._event_id(number) == event_id:
                return number
        return None


class _Event(NamedTuple):
    stream_id: StreamId
    message: JSONRPCMessage | None
    size: int


def _ends_stream(event: _Event) -> bool:
    """Whether nothing follows on that stream. A later request with the same id is another stream."""
    return event.stream_id != GET_STREAM_KEY and isinstance(event.message, JSONRPCResponse | JSONRPCError)


class ReplayingSessionManager(StreamableHTTPSessionManager):
    """The SDK's session manager, with the limits of the bridge and a replay store for each session.

    Args:
        app: The server whose sessions are managed.
        limits: The limits; the defaults, if not given.
    """

    def __init__(self, app: Server[Any], limits: HttpLimits | None = None) -> None:
        self._limits = limits or HttpLimits()
        super().__init__(
            app,
            retry_interval=self._limits.retry_interval,
            session_idle_timeout=self._limits.session_idle,
            max_request_body_size=self._limits.body_bytes,
            max_sessions=None,  # `Sessions` stands in front, and makes room
        )

    @property
    def event_store(self) -> EventStore | None:
        """A new store each time: the SDK reads this once for each session that it admits."""
        return ReplayStore(self._limits.replay_events, self._limits.replay_bytes)

    @event_store.setter
    def event_store(self, value: EventStore | None) -> None:
        if value is not None:
            raise TypeError("each session has its own event store; none can be set for all")
