"""The sessions of Streamable HTTP clients before 2026-07-28: who is let in, who has to give way.

A session that nobody uses gives way to a new client: its owner is told "not found", as after a restart, and shakes
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
from gaia_bridge.server.connection import NOWHERE, Connection
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
        """The header that names it."""
        self.connection = Connection(_Standing(self))
        self.was_used = False
        """Whether its owner came back after the first request, as those do who read the answer."""
        self.is_over = False
        """Whether it was ended."""
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._last_used = self._loop.time()
        self._left_at = time.monotonic()
        """The same, by a clock that tells any two of them apart: that of some loops counts milliseconds."""
        self._open = 0

    @cached_property
    def replay(self) -> ReplayBuffer:
        """What its client can ask for again. Most never have a stream that breaks, or any."""
        return ReplayBuffer(self._limits.replay_events, self._limits.replay_bytes)

    @cached_property
    def standing(self) -> EventStream:
        """What belongs to none of its client's requests."""
        return EventStream(self.replay, self._limits.stream_messages, is_read=False)

    @property
    def is_listened_to(self) -> bool:
        """Whether a response carries its standing stream."""
        return self._is_standing and self.standing.is_being_read

    @property
    def _is_standing(self) -> bool:
        return "standing" in self.__dict__

    def close(self) -> None:
        """It is over."""
        self.is_over = True
        self.connection.close()
        if self._is_standing:
            self.standing.finish(b"")
        self.connection.standing = NOWHERE  # which does not lead back here
        if "replay" in self.__dict__:
            self.replay.close()

    def stream(self) -> EventStream:
        """A stream for one request, or one batch."""
        retry = self._limits.retry_interval if self.connection.revision in RESUMABLE_REVISIONS else None
        return EventStream(self.replay, self._limits.stream_messages, retry=retry)

    @property
    def is_in_use(self) -> bool:
        """Whether a request is being answered or a stream is open."""
        return self._open > 0 or len(self.connection.received) > 0

    @property
    def worth(self) -> tuple[bool, float]:
        """What is worth least gives way first: handshakes that were never finished, then what was used longest ago."""
        return self.was_used, self._left_at

    @property
    def idle_since(self) -> float:
        """When it was used last, by the event loop's clock."""
        return self._last_used

    def __enter__(self) -> None:
        """A request is being answered."""
        self._open += 1

    def __exit__(self, *raised: object) -> None:
        """It no longer is."""
        self._open -= 1
        self._last_used, self._left_at = self._loop.time(), time.monotonic()


class _Standing:
    """The channel of a session to its client, for which nothing exists before there is something to say."""

    can_ask = True

    def __init__(self, session: Session) -> None:
        self._session = session

    async def send(self, message: bytes) -> None:
        """Send one message; waits while the client is slow to read."""
        await self._session.standing.send(message)

    def end(self) -> None:
        """The client opens and closes it as it likes."""


class Sessions:
    """All sessions of one endpoint.

    Args:
        limits: How many there may be, and for how long.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._known: dict[str, Session] = {}
        self.get = self._known.get
        """Gives the session of an id, if there is one."""
        self._opening = 0
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_full(self) -> bool:
        """Whether as many are in use, or being opened, as there may be."""
        most = self._limits.sessions
        if len(self._known) + self._opening < most:  # to look at each takes long where there are many
            return False
        return self._opening + sum(session.is_in_use for session in self._known.values()) >= most

    @contextmanager
    def opening(self) -> Generator[Session]:
        """A new session, while its handshake is answered. One that fails leaves nothing behind."""
        session = Session(self._limits)
        self._opening += 1
        try:
            yield session
        finally:
            self._opening -= 1
            if session.id not in self._known:
                session.close()

    def add(self, session: Session) -> None:
        """The handshake of a session was answered. Those that nobody uses give way to it."""
        self._known[session.id] = session
        while len(self._known) > self._limits.sessions:
            idle = [other for other in self._known.values() if not other.is_in_use and other is not session]
            if not idle:
                break
            logger.info("a session that nobody was using gave way to a new client")
            self.end(min(idle, key=lambda other: other.worth))
        self._watch()

    def end(self, session: Session) -> None:
        """A session is over, as its owner wanted or not."""
        self._known.pop(session.id, None)
        session.close()

    def close(self) -> None:
        """All of them are over."""
        if self._sweep is not None:
            self._sweep.cancel()
        for session in list(self._known.values()):
            self.end(session)

    def _watch(self) -> None:
        """Look again when the first of them may have been idle for long enough. One timer is enough for all."""
        if self._sweep is None and self._known:
            loop = asyncio.get_running_loop()
            first = min(loop.time() if session.is_in_use else session.idle_since for session in self._known.values())
            self._sweep = loop.call_at(first + self._limits.session_idle, self._end_idle)

    def _end_idle(self) -> None:
        self._sweep = None
        longest = asyncio.get_running_loop().time() - self._limits.session_idle
        for session in list(self._known.values()):
            if not session.is_in_use and session.idle_since <= longest:
                logger.info("a session ended: nobody used it for %g s", self._limits.session_idle)
                self.end(session)
        self._watch()
