"""Sessions: who converses with an agent, each with a history and loaded tools of its own."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct, field

from gaia.agents.chat.limits import CLIENT_SESSION, SERVED_SESSION, ChatLimits
from gaia.agents.chat.store import SessionStore, SessionSummary, StoredSession
from gaia_bridge.chat_types import ASK_SESSION
from gaia_bridge.errors import ContextOverflowError, SessionLimitError, UnknownSessionError
from gaia_bridge.model import repr_without
from gaia_bridge.text.json_types import JSON

__all__ = ["AgentSession", "Sessions"]

logger = logging.getLogger(__name__)

SessionCallback = Callable[[str], object]


_INHERITED: list[SessionStore] = []
"""After a fork, those of the parent: SQLite wants them neither used nor closed."""


def _now() -> datetime:
    return datetime.now(UTC)


class AgentSession(Struct, eq=False):
    """One conversation."""

    session_id: str
    system_message: str | None = None
    """Said to the model instead of what the agent says of itself."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    created_at: datetime = field(default_factory=_now)
    last_activity: datetime = field(default_factory=_now)
    history: list[JSON] = field(default_factory=list[JSON])
    """The messages so far, without the system message; whole turns only."""
    loaded_tools: dict[str, None] = field(default_factory=dict[str, None])
    """Tools that a search has found, in the order in which they were."""
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a turn is played, on the background loop."""
    busy: int = 0
    """Turns that are played or wait for their turn: such a session is not stale."""
    saved_at: datetime | None = None
    """The last activity that the file knows of, as we do."""
    size: int = 0
    """Bytes of the history, as JSON."""

    def __repr__(self) -> str:
        return repr_without(self, "history", "loaded_tools", "turn", "busy", "saved_at", "size")

    def touch(self) -> None:
        """Note that the session was used now."""
        self.last_activity = _now()


class Sessions:
    """The sessions of one agent. Usable from any thread; with a file, every method may wait for the disk.

    With a file, the history of every session is kept there. Sessions that nobody uses leave the memory, not the file:
    only `clean_up` and `destroy` end them, and stale ones of clients, who choose names as they like, end by themselves.
    Without a file, where there is room for no more, the one gives way that an MCP client began and used longest ago.

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
        self._sessions: dict[str, AgentSession] = {}
        self._memory = threading.RLock()
        """Never held for long: the background loop waits for it."""
        self._changing = threading.RLock()
        """Held while sessions come and go, which may take as long as the disk does; taken before `_memory`."""
        self._opened: SessionStore | None = None
        self._created: SessionCallback | None = None
        self._destroyed: SessionCallback | None = None
        self._swept = _now()

    def set_callbacks(self, created: SessionCallback | None, destroyed: SessionCallback | None) -> None:
        """Set the functions to call with the name of a session that is made or ended."""
        self._created, self._destroyed = created, destroyed

    def create(
        self, session_id: str, system_message: str | None = None, metadata: dict[str, Any] | None = None
    ) -> AgentSession:
        """Make a session, or take the one that is there and give it what is given here.

        Raises:
            ValueError: The name is no name.
            SessionLimitError: There are as many as there may be, and none is stale.
        """
        self._check_name(session_id)
        with self._changing:
            session = self._find(session_id)
            is_new = session is None
            if session is None:
                now = _now()
                session = AgentSession(session_id, created_at=now, last_activity=now)
            gone = [] if self._present(session_id) else self._make_room()
            if system_message is not None:
                session.system_message = system_message
            if metadata is not None:
                session.metadata = dict(metadata)
            if is_new or system_message is not None or metadata is not None:
                self._save(session)
            self._admit(session)
        self._tell(self._destroyed, gone)
        if is_new:
            self._tell(self._created, [session_id])
        return session

    def take(self, session_id: str, *, create: bool) -> AgentSession:
        """Return the session of a turn, from memory or the file.

        Args:
            session_id: Its name.
            create: Whether it is made if it is not there.

        Raises:
            UnknownSessionError: It is not there, and shall not be made.
            ValueError: That is no name.
            SessionLimitError: As for `create`.
        """
        self._check_name(session_id)
        session = self._present(session_id)
        if session is not None:
            self._refresh(session)
            return session
        if create:
            return self.create(session_id)
        with self._changing:
            session = self._find(session_id)
            if session is None:
                raise UnknownSessionError(session_id)
            gone = [] if self._present(session_id) else self._make_room()
            self._admit(session)
        self._tell(self._destroyed, gone)
        return session

    def enter(self, session: AgentSession) -> bool:
        """Begin a turn of a session: the session is not stale until `leave`. Never waits for the disk.

        Returns:
            Whether the session is still there; if not, it has to be taken again.
        """
        with self._memory:
            if self._sessions.get(session.session_id) is not session:
                return False
            session.busy += 1
            session.touch()
            return True

    def leave(self, session: AgentSession) -> None:
        """End the turn of a session."""
        with self._memory:
            session.busy -= 1
            session.touch()

    def add(
        self, session: AgentSession, history: list[JSON], messages: list[JSON], loaded_tools: dict[str, None]
    ) -> None:
        """Remember a turn. One that is not there any more, or has begun anew meanwhile, remembers nothing of it.

        Args:
            session: Whose turn it was.
            history: Its history when the turn began.
            messages: What the turn adds to that.
            loaded_tools: All tools that are loaded now.
        """
        size, stored = _size(messages), len(history)
        with self._changing:
            with self._memory:
                if session.history is not history:
                    return
                history += messages
                session.loaded_tools = loaded_tools
                session.size += size
            if self._sessions.get(session.session_id) is session:
                self._save(session, stored)

    def clear(self, session_id: str, *, keep_system: bool) -> None:
        """Begin a session anew; a turn that is being played goes on, and is forgotten.

        Raises:
            ValueError: There is no such session.
        """
        with self._changing:
            session = self.take(session_id, create=False)
            with self._memory:
                session.history, session.loaded_tools, session.size = [], {}, 0
                if not keep_system:
                    session.system_message = None
            self._save(session)

    def destroy(self, session_id: str) -> bool:
        """End a session; whether there was one. A turn that is being played goes on, and is forgotten."""
        existed = self._end(session_id)
        self._tell(self._destroyed, [session_id] if existed else [])
        return existed

    def summaries(self) -> list[dict[str, Any]]:
        """List the sessions, the oldest first."""
        with self._changing:
            with self._memory:
                summaries = {name: _summary(session, len(session.history)) for name, session in self._sessions.items()}
            if (store := self._store()) is not None:
                for item in store.list():
                    summaries.setdefault(item.session_id, _summary(item, item.message_count))
        return sorted(summaries.values(), key=lambda summary: str(summary["created_at"]))

    def clean_up(self) -> int:
        """End the sessions that are stale; how many were."""
        with self._changing:
            gone = self._end_stale() + self._end_stale_in_file()
        self._tell(self._destroyed, gone)
        return len(gone)

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
        with self._changing:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def begin_anew_after_fork(self) -> None:
        """Begin anew in a forked child, without the turns of the parent and its connection to the file."""
        self._memory, self._changing = threading.RLock(), threading.RLock()
        if self._opened is not None:
            _INHERITED.append(self._opened)
            self._opened = None
        for session in self._sessions.values():
            session.turn, session.busy = anyio.Lock(), 0

    def __len__(self) -> int:
        with self._memory:
            return len(self._sessions)

    def _store(self) -> SessionStore | None:
        if self._opened is None and self._file is not None:
            self._opened = SessionStore(self._file)
        return self._opened

    def _present(self, session_id: str) -> AgentSession | None:
        with self._memory:
            session = self._sessions.get(session_id)
            if session is not None:
                session.touch()
            return session

    def _find(self, session_id: str) -> AgentSession | None:
        """Return the session, if need be read from the file; `None` if there is none."""
        session = self._present(session_id)
        if session is not None or (store := self._store()) is None:
            return session
        stored = store.load(session_id)
        if stored is None:
            return None
        return AgentSession(
            session_id,
            stored.system_message,
            stored.metadata,
            stored.created_at,
            _now(),
            stored.messages,
            dict.fromkeys(stored.loaded_tools),
            size=_size(stored.messages),
            saved_at=stored.last_activity,
        )

    def _refresh(self, session: AgentSession) -> None:
        """Read again what another process has written to the file meanwhile.

        Does not wait for a slow disk: what is not seen now is not lost, since a turn is put behind what the file has.
        """
        if self._file is None or not self._changing.acquire(blocking=False):
            return
        try:
            store = self._store()
            if store is None or store.last_activity(session.session_id) in (None, session.saved_at):
                return
            stored = store.load(session.session_id)
            with self._memory:
                if stored is None or session.busy:
                    return  # what a turn adds is put behind what is there by then
                session.history, session.loaded_tools = stored.messages, dict.fromkeys(stored.loaded_tools)
                session.system_message, session.metadata = stored.system_message, stored.metadata
                session.size, session.saved_at = _size(stored.messages), stored.last_activity
        finally:
            self._changing.release()

    def _save(self, session: AgentSession, stored: int | None = None) -> None:
        if (store := self._store()) is None:
            return
        with self._memory:
            state = StoredSession(
                session.session_id,
                session.created_at,
                session.last_activity,
                list(session.history),
                list(session.loaded_tools),
                dict(session.metadata),
                session.system_message,
            )
        merged = store.save(state, stored)
        with self._memory:
            session.saved_at = state.last_activity
            if merged is not None:
                session.history[:] = merged
                session.size = _size(merged)

    def _admit(self, session: AgentSession) -> None:
        with self._memory:
            self._sessions[session.session_id] = session

    def _make_room(self) -> list[str]:
        """See to it that one more session can be taken into memory.

        Returns:
            The names of those that were ended for it.
        """
        gone: list[str] = []
        is_due = _now() - self._swept >= timedelta(seconds=self._limits.sweep_interval)
        if is_due or len(self) >= self._maximum:
            self._swept = _now()
            if self._file is None:
                gone = self._end_stale()
                if len(self) >= self._maximum:
                    gone += self._end_idlest(f"{CLIENT_SESSION}{ASK_SESSION}")
            else:
                self._forget_idle()
                gone = self._end_stale_in_file(CLIENT_SESSION) if is_due else []
        if len(self) >= self._maximum:
            self._tell(self._destroyed, gone)
            raise SessionLimitError(self._maximum)
        return gone

    def _forget_idle(self) -> None:
        """Forget the sessions that are in the file and were not used for longest."""
        with self._memory:
            idle = sorted((it for it in self._sessions.values() if not it.busy), key=lambda it: it.last_activity)
            for session in idle[: max(0, len(self._sessions) + 1 - self._maximum)]:
                del self._sessions[session.session_id]

    def _end_stale(self) -> list[str]:
        with self._memory:
            names = [name for name, session in self._sessions.items() if self._is_stale(session)]
        return [name for name in names if self._end(name, if_stale=True)]

    def _end_idlest(self, prefix: str) -> list[str]:
        """End the one that was not used for longest, of those whose names begin so."""
        with self._memory:
            idle = [it for it in self._sessions.values() if it.session_id.startswith(prefix) and not it.busy]
            oldest = min(idle, key=lambda it: it.last_activity, default=None)
        return [oldest.session_id] if oldest is not None and self._end(oldest.session_id) else []

    def _end_stale_in_file(self, prefix: str = "") -> list[str]:
        """End those that are not in memory, and whose names begin so."""
        if (store := self._store()) is None:
            return []
        before = _now() - self._timeout
        names = [item.session_id for item in store.list() if item.last_activity < before]
        return [name for name in names if name.startswith(prefix) and name not in self._sessions and self._end(name)]

    def _is_stale(self, session: AgentSession) -> bool:
        if session.busy or session.session_id.startswith(SERVED_SESSION):
            return False
        return session.last_activity < _now() - self._timeout

    def _end(self, session_id: str, *, if_stale: bool = False) -> bool:
        with self._changing:
            with self._memory:
                session = self._sessions.get(session_id)
                if if_stale and session is not None and not self._is_stale(session):
                    return False  # somebody has come back
                existed = self._sessions.pop(session_id, None) is not None
            if (store := self._store()) is not None:
                existed = store.delete(session_id) or existed
        return existed

    def _check_name(self, session_id: object) -> None:
        if isinstance(session_id, str) and 0 < len(session_id) <= self._limits.name_chars and session_id.isprintable():
            return
        raise ValueError(
            f"a session's name is text of 1 to {self._limits.name_chars} printable characters; got {session_id!r:.100}"
        )

    def _tell(self, callback: SessionCallback | None, session_ids: list[str]) -> None:
        """Call a callback, never under a lock: it is somebody else's code."""
        if callback is None:
            return
        for session_id in session_ids:
            try:
                callback(session_id)
            except Exception:  # the session is there, or is not, all the same
                logger.exception("session %r: a callback failed", session_id)


def _size(messages: list[JSON]) -> int:
    return sum(len(json.dumps(message, default=str)) for message in messages)


def _summary(session: AgentSession | SessionSummary, messages: int) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "message_count": messages + 1,  # the system message is one
        "created_at": session.created_at.isoformat(),
        "last_activity": session.last_activity.isoformat(),
        "metadata": dict(session.metadata),
    }
