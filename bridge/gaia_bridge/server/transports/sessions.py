"""The sessions of Streamable HTTP clients before 2026-07-28: how many may open, and which give way.

A session that nobody uses gives way to a new client: its owner gets "not found", as after a restart, and shakes
hands again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from uuid import uuid4

from gaia_bridge.protocol.revisions import RESUMABLE_REVISIONS
from gaia_bridge.server.connection import NOWHERE, ClientConnection, PlainChannel
from gaia_bridge.server.transports.event_stream import EventStream, ReplayBuffer
from gaia_bridge.server.transports.http_exchange import Headers
from gaia_bridge.settings import HttpLimits

logger = logging.getLogger(__name__)

SESSION_HEADER = "mcp-session-id"


class Session:
    """One session; it is in use in a `with` block."""

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
        self._open = 0

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
        return self._open > 0 or len(self.connection.received) > 0

    @property
    def worth(self) -> tuple[bool, float]:
        """The worth of the session; the least gives way first: unfinished handshakes, then the least recently used."""
        return self.was_used, self._left_at

    def __enter__(self) -> None:
        """Note that a request is being answered."""
        self._open += 1

    def __exit__(self, *raised: object) -> None:
        """Note that a request is over."""
        self._open -= 1
        self.idle_since, self._left_at = self._loop.time(), time.monotonic()


class Sessions:
    """All sessions of one endpoint."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}
        self.get = self._sessions.get
        """Returns the session of an id, if there is one."""
        self._opening = 0
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_full(self) -> bool:
        """Whether the limit of sessions is reached by those in use or being opened."""
        most = self._limits.sessions
        if len(self._sessions) + self._opening < most:  # to look at each takes long where there are many
            return False
        return self._opening + sum(session.is_in_use for session in self._sessions.values()) >= most

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
        while len(self._sessions) > self._limits.sessions:
            idle = [other for other in self._sessions.values() if not other.is_in_use and other is not session]
            if not idle:
                break
            logger.info("a session that nobody was using gave way to a new client")
            self.end(min(idle, key=lambda other: other.worth))
        self._watch()

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
