"""Sessions: who converses with an agent, each with a history and loaded tools of its own (document 002)."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from gaia.agents.chat.limits import ChatLimits
from gaia.agents.chat.store import SessionStore, SessionSummary, StoredSession
from gaia_bridge.errors import ContextOverflowError, SessionLimitError
from gaia_bridge.jsontypes import JSON

__all__ = ["AgentSession", "Sessions"]

logger = logging.getLogger(__name__)

SessionCallback = Callable[[str], object]


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(eq=False)
class AgentSession:
    """One conversation."""

    session_id: str
    system_message: str | None = None
    """Said to the model instead of what the agent says of itself."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    created_at: datetime = field(default_factory=_now)
    last_activity: datetime = field(default_factory=_now)
    history: list[JSON] = field(default_factory=list[JSON], repr=False)
    """The messages so far, without the system message; whole turns only."""
    loaded_tools: dict[str, None] = field(default_factory=dict[str, None], repr=False)
    """Tools that a search has found, in the order in which they were (C30)."""
    turn: anyio.Lock = field(default_factory=anyio.Lock, repr=False)
    """Held while a turn is played, on the background loop."""
    busy: int = field(default=0, repr=False)
    """Turns that are played or wait for their turn: such a session is not stale."""
    size: int = field(default=0, repr=False)
    """Bytes of the history, as JSON."""
    measured: int = field(default=0, repr=False)
    """Messages that `size` counts."""

    def touch(self) -> None:
        """Somebody was here."""
        self.last_activity = _now()

    def measure(self) -> int:
        """Count what is new in the history."""
        self.size += sum(len(json.dumps(message, default=str)) for message in self.history[self.measured :])
        self.measured = len(self.history)
        return self.size

    def clear(self) -> None:
        """Begin anew."""
        self.history.clear()
        self.loaded_tools.clear()
        self.size = self.measured = 0


class Sessions:
    """The sessions of one agent. Usable from any thread; with a file, every method may wait for the disk.

    With a file, the history of every session is kept there. Sessions that nobody uses leave the memory, not the file:
    only `clean_up` and `destroy` end them.

    Args:
        limits: How much a session may hold; how often stale ones are looked for.
        timeout: Seconds without activity after which a session is stale.
        maximum: How many there may be in memory.
        file: Where sessions are kept that outlive the process; opened when the first is made.
    """

    def __init__(self, limits: ChatLimits, timeout: float, maximum: int, file: Path | str | None = None) -> None:
        self._limits = limits
        self._timeout = timedelta(seconds=timeout)
        self._maximum = maximum
        self._file = file
        self._lock = threading.RLock()
        self._opened: SessionStore | None = None
        self._sessions: dict[str, AgentSession] = {}
        self._created: SessionCallback | None = None
        self._destroyed: SessionCallback | None = None
        self._swept = _now()

    def set_callbacks(self, created: SessionCallback | None, destroyed: SessionCallback | None) -> None:
        """Whom to tell; nobody where it is `None`."""
        self._created, self._destroyed = created, destroyed

    def create(
        self, session_id: str, system_message: str | None = None, metadata: dict[str, Any] | None = None
    ) -> AgentSession:
        """Make a session, or take the one that is there and give it what is given here (S2-25).

        Raises:
            ValueError: The name is no name.
            SessionLimitError: There are as many as there may be, and none is stale.
        """
        self._check_name(session_id)
        with self._lock:
            session = self._find(session_id)
            is_new = session is None
            if session is None:
                session = self._admit(AgentSession(session_id))
            if system_message is not None:
                session.system_message = system_message
            if metadata is not None:
                session.metadata = dict(metadata)
            if is_new or system_message is not None or metadata is not None:
                self.keep(session)
        if is_new:
            self._tell(self._created, session_id)
        return session

    def take(self, session_id: str, *, create: bool) -> AgentSession:
        """The session that a turn is for.

        Args:
            session_id: Its name.
            create: Whether it is made if it is not there (S2-29).

        Raises:
            ValueError: It is not there, and shall not be made; or that is no name.
            SessionLimitError: As for `create`.
        """
        if create:
            return self.create(session_id)
        self._check_name(session_id)
        with self._lock:
            session = self._find(session_id)
        if session is None:
            raise ValueError(f"Session {session_id} does not exist; create_session() makes it")
        return session

    def destroy(self, session_id: str) -> bool:
        """End a session; whether there was one (S2-26). A turn that is being played goes on, and is forgotten."""
        with self._lock:
            known = self._sessions.pop(session_id, None) is not None
            if (store := self._store()) is not None:
                known = store.delete(session_id) or known
        if known:
            self._tell(self._destroyed, session_id)
        return known

    def summaries(self) -> list[dict[str, Any]]:
        """What there is, the oldest first (S2-27)."""
        with self._lock:
            found = {name: _summary(session, len(session.history)) for name, session in self._sessions.items()}
            if (store := self._store()) is not None:
                for item in store.list():
                    found.setdefault(item.session_id, _summary(item, item.message_count))
        return sorted(found.values(), key=lambda summary: str(summary["created_at"]))

    def clean_up(self) -> int:
        """End the sessions that are stale; how many were (S2-28)."""
        with self._lock:
            names = dict.fromkeys(self._stale())
            if (store := self._store()) is not None:
                before = _now() - self._timeout
                names |= dict.fromkeys(
                    item.session_id
                    for item in store.list()
                    if item.last_activity < before and item.session_id not in self._sessions
                )
        return sum(self.destroy(name) for name in names)

    @contextmanager
    def using(self, session: AgentSession) -> Generator[None]:
        """Somebody waits for an answer: the session is not stale meanwhile."""
        with self._lock:
            session.busy += 1
            session.touch()
        try:
            yield
        finally:
            with self._lock:
                session.busy -= 1
                session.touch()

    def keep(self, session: AgentSession) -> None:
        """Remember the session as it is now; nothing to do for one that was destroyed, or without a file."""
        with self._lock:
            session.measure()
            store = self._store()
            if store is None or self._sessions.get(session.session_id) is not session:
                return
            store.save(
                StoredSession(
                    session.session_id,
                    session.created_at,
                    session.last_activity,
                    list(session.history),
                    list(session.loaded_tools),
                    dict(session.metadata),
                    session.system_message,
                )
            )

    def check_size(self, session: AgentSession) -> None:
        """Refuse to go on with a history that no model can read any more.

        Raises:
            ContextOverflowError: It is that long.
        """
        if session.size > self._limits.history_bytes:
            raise ContextOverflowError(
                f"The history of session {session.session_id!r} has {session.size:,} bytes; "
                f"at most {self._limits.history_bytes:,} are kept.",
                "Begin anew with clear_session_history().",
            )

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def __len__(self) -> int:
        with self._lock:
            return len(self._sessions)

    def _store(self) -> SessionStore | None:
        if self._opened is None and self._file is not None:
            self._opened = SessionStore(self._file)
        return self._opened

    def _find(self, session_id: str) -> AgentSession | None:
        session = self._sessions.get(session_id)
        if session is not None or (store := self._store()) is None:
            return session
        stored = store.load(session_id)
        if stored is None:
            return None
        return self._admit(
            AgentSession(
                session_id,
                stored.system_message,
                stored.metadata,
                stored.created_at,
                stored.last_activity,
                stored.messages,
                dict.fromkeys(stored.loaded_tools),
            )
        )

    def _admit(self, session: AgentSession) -> AgentSession:
        """Take a session into memory, where there is room, or room can be made."""
        is_full = len(self._sessions) >= self._maximum
        if is_full or _now() - self._swept >= timedelta(seconds=self._limits.sweep_interval):
            self._swept = _now()
            if self._file is None:
                for name in self._stale():
                    self.destroy(name)
            else:
                self._make_room()
        if len(self._sessions) >= self._maximum:
            raise SessionLimitError(self._maximum)
        self._sessions[session.session_id] = session
        session.measure()
        return session

    def _make_room(self) -> None:
        """Forget the sessions that are in the file and were not used for longest."""
        idle = sorted((found for found in self._sessions.values() if not found.busy), key=lambda it: it.last_activity)
        for session in idle[: max(0, len(self._sessions) + 1 - self._maximum)]:
            del self._sessions[session.session_id]

    def _stale(self) -> list[str]:
        before = _now() - self._timeout
        return [name for name, found in self._sessions.items() if not found.busy and found.last_activity < before]

    def _check_name(self, session_id: object) -> None:
        if not isinstance(session_id, str) or not session_id or len(session_id) > self._limits.name_chars:
            raise ValueError(
                f"a session's name is text of 1 to {self._limits.name_chars} characters; got {session_id!r:.100}"
            )

    def _tell(self, callback: SessionCallback | None, session_id: str) -> None:
        if callback is None:
            return
        try:
            callback(session_id)
        except Exception:  # somebody else's code; the session is there all the same
            logger.exception("session %r: a callback failed", session_id)


def _summary(session: AgentSession | SessionSummary, messages: int) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "message_count": messages + 1,  # the system message is one
        "created_at": session.created_at.isoformat(),
        "last_activity": session.last_activity.isoformat(),
        "metadata": dict(session.metadata),
    }
