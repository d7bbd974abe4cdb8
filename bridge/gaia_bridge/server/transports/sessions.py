"""The sessions of Streamable HTTP clients before 2026-07-28: how many may open, and which give way.

A session that nobody uses gives way to a new client: its owner gets "not found", as after a restart, and shakes
hands again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from operator import itemgetter
from uuid import uuid4

from gaia_bridge.protocol.revisions import RESUMABLE_REVISIONS
from gaia_bridge.server.connection import NOWHERE, ClientConnection, PlainChannel
from gaia_bridge.server.transports.event_stream import EventStream, ReplayBuffer
from gaia_bridge.server.transports.http_exchange import Headers
from gaia_bridge.settings import HttpLimits

logger = logging.getLogger(__name__)

SESSION_HEADER = "mcp-session-id"


class Session:
    """One session; it is in use while requests are `open`."""

    def __init__(self, limits: HttpLimits) -> None:
        self.id = uuid4().hex
        self.named: Headers = [(SESSION_HEADER.encode(), self.id.encode())]
        # Its stream is made for the first message; the client opens and closes that as it likes.
        self.connection = ClientConnection(PlainChannel(lambda message: self.standing.send(message)))
        self.was_used = False
        """Whether its client came back after the first request, as clients do that read the answer."""
        self.is_over = False
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self.idle_since = self._loop.time()
        """The time of its last use, by the event loop's clock."""
        self._left_at = time.monotonic()
        """The time of its last use by a finer clock, so no two are equal: some loops' clocks count milliseconds."""
        self.open = 0
        """Requests that are being answered, and streams that are open."""

    @cached_property
    def replay(self) -> ReplayBuffer:
        """The events that its client can request again. Most clients never have a stream that breaks, or any."""
        return ReplayBuffer(self._limits.replay_events, self._limits.replay_bytes)

    @cached_property
    def standing(self) -> EventStream:
        """The stream for messages that belong to none of its client's requests."""
        return EventStream(self.replay, self._limits.stream_messages, is_read=False)

    @property
    def is_listened_to(self) -> bool:
        """Whether a response carries its standing stream."""
        return "standing" in self.__dict__ and self.standing.is_read

    def close(self) -> None:
        """End the session."""
        self.is_over = True
        self.connection.close()
        if "standing" in self.__dict__:  # else it was never used, and is not made for this
            self.standing.finish(b"")
        self.connection.standing = NOWHERE  # which does not lead back here
        if "replay" in self.__dict__:
            self.replay.close()

    def stream(self) -> EventStream:
        """Return a stream for one request, or one batch."""
        retry = self._limits.retry_interval if self.connection.revision in RESUMABLE_REVISIONS else None
        return EventStream(self.replay, self._limits.stream_messages, retry=retry)

    @property
    def is_in_use(self) -> bool:
        """Whether a request is being answered or a stream is open."""
        return self.open > 0 or len(self.connection.received) > 0

    @property
    def worth(self) -> tuple[bool, float]:
        """The worth of the session; the least gives way first: unfinished handshakes, then the least recently used."""
        return self.was_used, self._left_at

    def leave(self, now: float) -> None:
        """Note that a request is over at that time of `time.monotonic`."""
        self.open -= 1
        self.idle_since, self._left_at = self._loop.time(), now


_Queue = deque[tuple[tuple[bool, float], Session]]
"""Sessions, each with its worth when it was added: another worth says that it was used since then."""


class Sessions:
    """All sessions of one endpoint."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}
        self.get = self._sessions.get
        """Returns the session of an id, if there is one."""
        self._fresh: _Queue = deque()
        """The sessions whose clients did not come back yet, the oldest first."""
        self._sorted: _Queue = deque()
        """Others that nobody used some time ago, the one of least worth first."""
        self._opening = 0
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_full(self) -> bool:
        """Whether the limit of sessions is reached by those in use or being opened."""
        excess = len(self._sessions) + self._opening + 1 - self._limits.sessions
        return excess > 0 and len(self._least_worth(excess)) < excess

    @contextmanager
    def opening(self) -> Generator[Session]:
        """Make a session, while its handshake is answered. One that fails leaves nothing behind."""
        session = Session(self._limits)
        self._opening += 1
        try:
            yield session
        finally:
            self._opening -= 1
            if session.id not in self._sessions:
                session.close()

    def add(self, session: Session) -> None:
        """Keep a session whose handshake was answered. Sessions that nobody uses give way to it."""
        self._sessions[session.id] = session
        self._fresh.append((session.worth, session))
        excess = len(self._sessions) - self._limits.sessions
        for idle in self._least_worth(excess, session):
            logger.info("a session that nobody was using gave way to a new client")
            self.end(idle)
        self._watch()

    def _least_worth(self, count: int, new: Session | None = None) -> list[Session]:
        """Return so many sessions that nobody uses, the one of least worth first; fewer if there are not as many.

        To sort all takes milliseconds, so that it is done once for many new clients.
        """
        fresh = self._idle_of(self._fresh, count, new)
        used = self._idle_of(self._sorted, count - len(fresh), new)
        if len(fresh) + len(used) < count:
            idle = (other for other in self._sessions.values() if other.was_used and not other.is_in_use)
            self._sorted = deque(sorted(((other.worth, other) for other in idle), key=itemgetter(0)))
            used = self._idle_of(self._sorted, count - len(fresh), new)
        return fresh + used

    def _idle_of(self, queue: _Queue, count: int, new: Session | None) -> list[Session]:
        """Return the first sessions of a queue that nobody uses; those that ended or were used are dropped from it."""
        idle: list[Session] = []
        kept: _Queue = deque()
        while queue and len(idle) < count:
            worth, session = queue.popleft()
            if self._sessions.get(session.id) is session and session.worth == worth:
                kept.appendleft((worth, session))
                if session is not new and not session.is_in_use:
                    idle.append(session)
        queue.extendleft(kept)
        return idle

    def end(self, session: Session) -> None:
        """End a session, as its client wanted or not."""
        self._sessions.pop(session.id, None)
        session.close()

    def close(self) -> None:
        """End all sessions."""
        if self._sweep is not None:
            self._sweep.cancel()
        for session in list(self._sessions.values()):
            self.end(session)

    def _watch(self) -> None:
        """Set the timer for when the first session may have been idle for long enough. One timer is enough for all."""
        if self._sweep is None and self._sessions:
            loop = asyncio.get_running_loop()
            first = min(loop.time() if session.is_in_use else session.idle_since for session in self._sessions.values())
            self._sweep = loop.call_at(first + self._limits.session_idle, self._end_idle)

    def _end_idle(self) -> None:
        self._sweep = None
        longest = asyncio.get_running_loop().time() - self._limits.session_idle
        for session in list(self._sessions.values()):
            if not session.is_in_use and session.idle_since <= longest:
                logger.info("a session ended: nobody used it for %g s", self._limits.session_idle)
                self.end(session)
        self._watch()
