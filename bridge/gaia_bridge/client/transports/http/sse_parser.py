"""The event stream format of `text/event-stream`: bytes in any cut become events, at linear cost and within a bound.

HTML standard, section 9.2 "Server-sent events". Pure; the caller reads the bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from gaia_bridge.client.transports.budgets import Budget

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS = 8
"""Lines beside its data that an event may have before they count as useless; an event needs three."""
_RETRY_DIGITS = 15
"""The most digits of `retry`: more would be an absurd wait, and slow to convert."""


class ServerSentEvent(Struct, frozen=True):
    """One event that has data, though the data may be empty."""

    type: str
    data: str


class OversizedEventError(Exception):
    """An event is larger than allowed. The stream cannot be read any further."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event of more than {limit} bytes")
        self.limit = limit


class EventParser:
    """Parses the bytes of one stream. An event is complete with its blank line; an incomplete one is dropped.

    The limit is in bytes, of one event without comments and of one line.
    """

    def __init__(self, limit: int) -> None:
        self.last_id = ""
        """The id of the last event, from which the stream can be resumed; empty where it cannot."""
        self.retry: float | None = None
        """Seconds after which the server wants a reconnection, if it sent them."""
        self.oversized = False
        """Whether an event was larger than allowed; nothing is read after that."""
        self._idle = 0  # lines that led to nothing
        self._fields = 0  # of the event that is not complete
        self._limit = limit
        self._line = bytearray()  # one that has not ended
        self._after_cr = False
        self._at_start = True
        self._type = b""
        self._data = bytearray()  # its lines, each with an end; in one place, as objects cost more than short lines
        self._id: bytes | None = None

    def take_idle(self) -> int:
        """Return the number of useless lines since the last call, and reset it."""
        idle, self._idle = self._idle, 0
        if self._fields > _FIELDS:
            idle, self._fields = idle + self._fields, 0
        return idle

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes; return the events that they complete."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")  # the other half of a line end
            self._after_cr = False
        if not chunk or self.oversized:
            return []
        self._after_cr = chunk.endswith(b"\r")
        lines = chunk.splitlines()
        unfinished = b"" if chunk.endswith((b"\r", b"\n")) else lines.pop()
        events: list[ServerSentEvent] = []
        for line in lines:
            self._keep(line)
            if self.oversized:
                break
            if (event := self._take_line()) is not None:
                events.append(event)
        else:
            self._keep(unfinished)
        return events

    def _keep(self, part: bytes) -> None:
        if len(self._line) + len(part) + len(self._data) > self._limit:
            self.oversized = True
            self._line, self._data = bytearray(), bytearray()
        else:
            self._line += part

    def _take_line(self) -> ServerSentEvent | None:
        line = bytes(self._line)
        self._line.clear()
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if not name:
            self._idle += 1
        elif name != b"data":
            self._fields += 1
        self._take_field(name, value.removeprefix(b" "))  # a comment is a field without a name
        return None

    def _take_field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._data += value
            self._data += b"\n"
        elif name == b"event":
            self._type = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value
        elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            self.retry = int(value) / 1000

    def _dispatch(self) -> ServerSentEvent | None:
        kind, data, self._type, self._data = self._type, self._data, b"", bytearray()
        if self._id is not None:
            self.last_id, self._id = self._id.decode("utf-8", "replace"), None
        fields, self._fields = self._fields, 0
        if not data:
            self._idle += fields + 1
            return None
        self._idle += max(0, fields - _FIELDS)
        return ServerSentEvent(kind.decode("utf-8", "replace") or "message", data[:-1].decode("utf-8", "replace"))


class EventReader:
    """The events of one response, one after the other, each within a limit in bytes.

    Args:
        read: Waits for the next bytes; empty at the end.
        idle: The budget of useless lines; unlimited without it.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], limit: int, idle: Budget | None = None) -> None:
        self._read = read
        self._idle = idle
        self._limit = limit
        self.parser = EventParser(limit)
        """The parser of the stream; it has the id of the last event, and the time to wait before a reconnection."""
        self._events: list[ServerSentEvent] = []  # the next one is the last

    async def next(self) -> ServerSentEvent | None:
        """Wait for the next event; `None` at the end. Raises `OversizedEventError`, or `FloodError`."""
        while not self._events:
            if self.parser.oversized:
                raise OversizedEventError(self._limit)
            if self._idle is not None:
                self._idle.add(self.parser.take_idle())
            chunk = await self._read()
            if not chunk:
                return None
            self._events = self.parser.feed(chunk)[::-1]
        return self._events.pop()
