"""Messages to an HTTP client as server-sent events, and the replay of those that a broken stream has lost.

Revisions up to 2025-11-25 let a client resume a stream with `Last-Event-ID` (basic/transports, "Resumability and
Redelivery"); 2026-07-28 has no such thing. Each session remembers its own events, bounded by count and bytes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from gaia_bridge.protocol.codes import REQUEST_CANCELLED
from gaia_bridge.protocol.messages import Refusal, encoded_error
from gaia_bridge.server.call import Call
from gaia_bridge.server.dispatcher import Answer

_MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes that may wait in one stream; beyond that, the sender of the next message waits."""
EVENT_OVERHEAD: Final = 512
"""Bytes that an event counts for besides its message, so that many small ones are bounded as well."""


class _Event(NamedTuple):
    stream: EventStream
    message: bytes
    """The message; empty for the event that begins a stream."""


class ReplayBuffer:
    """The last events of one session; the oldest go first. An event that is too large alone cannot be replayed."""

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._prefix = secrets.token_urlsafe(12)  # an id of another session, or a guess, matches nothing
        self._events: deque[_Event] = deque()
        self._first = 0
        self._bytes = 0

    def add(self, stream: EventStream, message: bytes) -> str:
        """Keep one event; return its id."""
        number = self._first + len(self._events)
        self._events.append(_Event(stream, message))
        self._bytes += EVENT_OVERHEAD + len(message)
        while len(self._events) > self._max_events or self._bytes > self._max_bytes:
            self._bytes -= EVENT_OVERHEAD + len(self._events.popleft().message)
            self._first += 1
        return self._id(number)

    def after(self, event_id: str) -> tuple[EventStream, list[bytes]] | None:
        """Return the stream of the last event that a client has seen, and the events that followed on that stream.

        It is `None` if the id is unknown, forged, or no longer kept: a gap must not look like a complete replay.
        """
        prefix, _, digits = event_id.rpartition("-")
        if prefix != self._prefix or not (digits.isascii() and digits.isdecimal() and len(digits) < 16):
            return None
        number = int(digits) - self._first
        if event_id != self._id(int(digits)) or not 0 <= number < len(self._events):
            return None
        events = list(self._events)
        stream = events[number].stream
        return stream, [
            framed(event.message, self._id(self._first + place))
            for place, event in enumerate(events[number + 1 :], number + 1)
            if event.stream is stream and event.message
        ]

    def close(self) -> None:
        """Keep nothing, now or later: events lead to their streams, which lead back here."""
        self._max_events = 0
        self._first += len(self._events)
        self._events.clear()
        self._bytes = 0

    def _id(self, number: int) -> str:
        return f"{self._prefix}-{number}"


class EventStream:
    """The messages to a client on one HTTP response, or on several one after the other if it resumes. A `Channel`.

    It opens with the first message before the answer. An answer that comes first needs no stream: `first` waits for
    either.

    Args:
        replay: Remembers the events, where they can be asked for again.
        most: Messages that may wait for the client; beyond that, the sender of the next one waits.
        retry: Milliseconds after which a client whose stream broke should come back, sent in an event of its own;
            `None` for no such event.
        is_read: Whether a response is about to carry the stream.
    """

    def __init__(
        self,
        replay: ReplayBuffer | None,
        most: int,
        *,
        can_ask: bool = True,
        retry: int | None = None,
        is_read: bool = True,
    ) -> None:
        self.can_ask = can_ask
        self._replay = replay
        self._most = most
        self._retry = retry
        self.is_open = False
        self.answer: Answer | None = None
        """The answer, if no message came before it."""
        self._over = False
        self._is_paused = False
        self.reader = 0
        """The number of the response that carries the stream: the next response has a higher one."""
        self.is_read = is_read
        """Whether a response carries the stream."""
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._news: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    async def send(self, message: bytes) -> None:
        """Send one message; waits while the client is slow to read."""
        if self._over:
            return
        self.put(message)
        while self.is_read and self._is_full:
            self._room = self._room or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)

    def put(self, message: bytes) -> None:
        """Send one message without waiting: for messages that are bounded in another way."""
        self.open()
        event_id = None if self._replay is None else self._replay.add(self, message)
        if self.is_read:
            event = framed(message, event_id)
            self._waiting.append(event)
            self._bytes += len(event)
            self.wake()

    def open(self) -> None:
        """Begin the stream, if it has not begun."""
        if self.is_open:
            return
        self.is_open = True
        if self._replay is not None and self._retry is not None:
            event_id = self._replay.add(self, b"")
            self._waiting.append(f"id: {event_id}\r\nretry: {self._retry}\r\ndata: \r\n\r\n".encode())
        self.wake()

    async def first(self, patience: float | None) -> None:
        """Wait for the answer, or for a message before it, for so many seconds. `wake` ends the waiting early."""
        if self.answer is None and not self.is_open:
            loop = asyncio.get_running_loop()
            self._news = loop.create_future()
            timer = None if patience is None else loop.call_later(patience, self.wake)
            try:
                await self._news
            finally:
                if timer is not None:
                    timer.cancel()

    async def take(self, call: Call, answer: Answer) -> None:
        """Take the answer to the request whose messages the stream carries."""
        if not answer.body:
            answer = never_empty(call, answer)
        if self.is_open:
            self.finish(answer.body)
        else:
            self.answer = answer
            self.wake()

    def finish(self, message: bytes) -> None:
        """Send the last message, and end the stream."""
        if not self._over:
            if message:
                self.put(message)
            self._over = True
            self.wake()

    def end(self) -> None:
        """Close the response where the client can resume it, after the messages that still wait."""
        if self._replay is not None and self._retry is not None and not self._over:
            self.open()
            self._is_paused = True
            self.wake()

    def resume(self, missed: list[bytes]) -> None:
        """Resume the stream: the missed events, and then the new ones, go to the response that reads next."""
        self.reader += 1
        self._is_paused, self.is_read = False, True
        self._waiting = deque(missed)
        self._bytes = sum(map(len, missed))
        self._let_go()
        self.wake()

    @contextmanager
    def carried(self) -> Generator[None]:
        """Mark the block in which a response carries the stream: one that ends early leaves no reader behind."""
        reader = self.reader
        try:
            yield
        finally:
            self.left(reader)

    def events(self, first: bytes = b"") -> AsyncGenerator[bytes]:
        """Yield the events of a response, after a first one, until the stream is over or another takes its place."""
        return self._events(self.reader, first)  # of now: another response may come before this one's first step

    async def _events(self, reader: int, first: bytes) -> AsyncGenerator[bytes]:
        try:
            if first:
                yield first
            while reader == self.reader:
                if self._waiting:
                    event = self._waiting.popleft()
                    self._bytes = max(0, self._bytes - len(event))
                    self._let_go()
                    yield event
                elif self._over or self._is_paused:
                    return
                else:
                    self._news = asyncio.get_running_loop().create_future()
                    await self._news
        finally:
            self.left(reader)
            del self  # the traceback of a cancelled response, with this frame, is left to the garbage collector

    def left(self, reader: int) -> None:
        """Note that a response ended. The stream has no reader then, unless another response has taken its place."""
        self.answer = None  # it may be large, and must not wait for the garbage collector
        if reader == self.reader:
            self.is_read = False
            if self.is_open:  # whoever resumes is given again what was not read
                self._bytes = 0
                self._waiting.clear()
                self._let_go()

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) > self._most or self._bytes > _MOST_BYTES

    def wake(self) -> None:
        """End the waiting for news."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _let_go(self) -> None:
        if self._room is not None and not self._is_full:
            room, self._room = self._room, None
            if not room.done():
                room.set_result(None)


def never_empty(call: Call, answer: Answer) -> Answer:
    """Return an answer as it is sent over HTTP, where a cancelled request is answered too.

    In the handshake era, a stream ends with a response; later, whoever cancels a request has left.
    """
    if answer.body:
        return answer
    return Answer(encoded_error(Refusal(REQUEST_CANCELLED, "Request cancelled", call.id)), REQUEST_CANCELLED)


def framed(message: bytes, event_id: str | None) -> bytes:
    """Return a message as an event. JSON that we write has no line ends."""
    head = b"" if event_id is None else b"id: " + event_id.encode() + b"\r\n"
    return head + b"event: message\r\ndata: " + message + b"\r\n\r\n"
