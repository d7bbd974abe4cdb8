"""Sessions on disk: the conversations of an agent and its users outlive the process, in one SQLite file.

A session is saved in one transaction, and only what is new of it is written: a long conversation costs each turn no
more than a short one. Whoever kills the process in the middle of that finds the session as it was before (or after).

Every method blocks for as long as the disk takes, and may be called from any thread. Several processes may use the same
file; of two that save the same session, the later one counts. A store is not to be used across `os.fork`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from gaia_bridge.config.file_editor import make_private_folder
from gaia_bridge.errors import ConfigError, RequestError
from gaia_bridge.settings import Limits
from gaia_bridge.text.json_types import JSON

__all__ = ["SessionStore", "SessionStoreError", "SessionSummary", "StoreLimits", "StoredSession"]

_VERSION: Final = 1
"""Of the tables; in the file it is `user_version`."""

_APPLICATION: Final = 0x47414941
"""`application_id` of our files: "GAIA"."""

_TABLES: Final = f"""
    PRAGMA journal_mode = WAL;
    BEGIN;
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL,
        last_activity INTEGER NOT NULL,
        message_count INTEGER NOT NULL,
        system_message TEXT NOT NULL,
        loaded_tools TEXT NOT NULL,
        metadata TEXT NOT NULL
    );
    CREATE INDEX sessions_by_activity ON sessions (last_activity);
    CREATE TABLE messages (
        session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        content TEXT NOT NULL,
        PRIMARY KEY (session, position)
    );
    PRAGMA application_id = {_APPLICATION};
    PRAGMA user_version = {_VERSION};
    COMMIT;
"""

_SAVE: Final = """
    INSERT INTO sessions (id, created_at, last_activity, message_count, system_message, loaded_tools, metadata)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        created_at = excluded.created_at, last_activity = excluded.last_activity,
        message_count = excluded.message_count, system_message = excluded.system_message,
        loaded_tools = excluded.loaded_tools, metadata = excluded.metadata
"""

_FIND: Final = """
    SELECT number, created_at, last_activity, system_message, loaded_tools, metadata FROM sessions WHERE id = ?
"""

_LIST: Final = """
    SELECT id, created_at, last_activity, message_count, metadata FROM sessions ORDER BY created_at, number
"""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_RESCUE: Final = (
    "move it and its -wal and -shm files away to begin a new one; `sqlite3 FILE .recover` may save what is in it"
)

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNUSABLE: Final = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_PERM: "may not be opened",
    sqlite3.SQLITE_READONLY: "cannot be written to",
}
_FAILURES: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; what was saved before is still there",
    sqlite3.SQLITE_IOERR: "the disk failed",
}


class StoreLimits(Limits, frozen=True):
    """The limits of a store."""

    busy_timeout: float = 5.0
    """Seconds to wait for another process that writes. A save takes milliseconds; whoever takes longer hangs."""


class StoredSession(Struct, frozen=True):
    """All that is kept of a session."""

    session_id: str
    created_at: datetime
    """With a time zone; comes back in UTC."""
    last_activity: datetime
    """The same."""
    messages: list[JSON] = field(default_factory=list[JSON])
    """The conversation, in OpenAI's shape."""
    loaded_tools: list[str] = field(default_factory=list[str])
    """Names of the tools that the model has found, in that order."""
    metadata: JSON = field(default_factory=dict[str, Any])
    """The application's own data about the session."""
    system_message: str | None = None
    """The session's own system message, if it has one."""


class SessionSummary(Struct, frozen=True):
    """A session without its messages."""

    session_id: str
    created_at: datetime
    last_activity: datetime
    message_count: int
    metadata: JSON


class SessionStoreError(RequestError):
    """A session could not be read or written this time; the file is as it was.

    Args:
        path: The file.
        problem: What happened.
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"sessions in {path}: {problem}")
        self.path = path
        self.problem = problem


class SessionStore:
    """The sessions in one file, which only this user can read (0600, in a folder of 0700 where it has to be made).

    Args:
        path: The file; it need not exist. A leading `~` is the home folder.
        limits: What it may take.

    Raises:
        ConfigError: The file is damaged, of a newer version, something else, or cannot be opened. It is left as it is.
        SessionStoreError: It is used by others for too long.
    """

    def __init__(self, path: str | Path, limits: StoreLimits | None = None) -> None:
        self.path = Path(path).expanduser().absolute()  # absolute: SQLite takes ":memory:" for no file
        self._lock = threading.Lock()
        self._closed = False
        busy_timeout = (limits or StoreLimits()).busy_timeout
        with self._translating():
            _prepare_file(self.path)
            self._connection = sqlite3.connect(
                self.path, timeout=busy_timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self._check()
                # A transaction is safe from the end of this process at once, and from that of the power after the
                # next checkpoint: good enough for a conversation, and no turn waits for the platter.
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.execute("PRAGMA foreign_keys = ON")
            except BaseException:
                self._connection.close()
                raise

    def load(self, session_id: str) -> StoredSession | None:
        """Read a session.

        Args:
            session_id: Which.

        Returns:
            The session as it was saved, or `None` if there is none.

        Raises:
            ConfigError: The file is damaged.
            SessionStoreError: It cannot be read now.
        """
        with self._transaction("BEGIN") as connection:
            row = connection.execute(_FIND, (_valid_id(session_id),)).fetchone()
            if row is None:
                return None
            number, created_at, last_activity, system_message, loaded_tools, metadata = row
            texts = connection.execute(
                "SELECT content FROM messages WHERE session = ? ORDER BY position", (number,)
            ).fetchall()
            return StoredSession(
                session_id,
                _moment(created_at),
                _moment(last_activity),
                [json.loads(text) for (text,) in texts],
                json.loads(loaded_tools),
                json.loads(metadata),
                json.loads(system_message),
            )

    def save(self, session: StoredSession, stored: int | None = None) -> list[JSON] | None:
        """Write a session, wholly or not at all. What is in the file already is not written again.

        Args:
            session: The session; one of the same id is replaced.
            stored: How many of its messages the file had when they were read. If it has others by now, another process
                has been writing: theirs stay, and what is new here is put behind them.

        Returns:
            All messages as they are in the file now, where another process had been writing.

        Raises:
            ValueError: It has something in it that JSON cannot carry, a time without a zone, or no valid id.
            ConfigError: The file is damaged.
            SessionStoreError: It cannot be written now: the disk is full, or another process does not let go of it.
        """
        facts = (
            _valid_id(session.session_id),
            _microseconds(session.created_at),
            _microseconds(session.last_activity),
            len(session.messages),
            _text(session.system_message),
            _text(session.loaded_tools),
            _text(session.metadata),
        )
        texts = [_text(message) for message in session.messages]  # before anything is locked
        with self._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute(_SAVE, facts)
            [number] = connection.execute("SELECT number FROM sessions WHERE id = ?", facts[:1]).fetchone()
            rows = connection.execute("SELECT content FROM messages WHERE session = ? ORDER BY position", (number,))
            there = [text for (text,) in rows]
            is_merged = stored is not None and bool(there) and there != texts[:stored]
            if is_merged:
                texts = [*there, *texts[stored:]]
                connection.execute("UPDATE sessions SET message_count = ? WHERE id = ?", (len(texts), facts[0]))
            same = _common_length(texts, there)
            connection.execute("DELETE FROM messages WHERE session = ? AND position >= ?", (number, same))
            connection.executemany(
                "INSERT INTO messages (session, position, content) VALUES (?, ?, ?)",
                ((number, position, texts[position]) for position in range(same, len(texts))),
            )
            return [json.loads(text) for text in texts] if is_merged else None

    def last_activity(self, session_id: str) -> datetime | None:
        """Return when a session was last saved with something new; `None` if there is none. Raises as `load`."""
        with self._transaction("BEGIN") as connection:
            row = connection.execute(
                "SELECT last_activity FROM sessions WHERE id = ?", (_valid_id(session_id),)
            ).fetchone()
            return None if row is None else _moment(row[0])

    def delete(self, session_id: str) -> bool:
        """Forget a session.

        Args:
            session_id: Which.

        Returns:
            Whether there was one.

        Raises:
            ConfigError: The file is damaged.
            SessionStoreError: It cannot be written now.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            return connection.execute("DELETE FROM sessions WHERE id = ?", (_valid_id(session_id),)).rowcount > 0

    def count(self) -> int:
        """Count the sessions. Raises as `load`."""
        with self._transaction("BEGIN") as connection:
            [count] = connection.execute("SELECT COUNT(*) FROM sessions").fetchone()
            return int(count)

    def list(self) -> tuple[SessionSummary, ...]:
        """List all sessions without their messages, the oldest first. Raises as `load`."""
        with self._transaction("BEGIN") as connection:
            rows = connection.execute(_LIST).fetchall()
            return tuple(
                SessionSummary(session_id, _moment(created_at), _moment(last_activity), count, json.loads(metadata))
                for session_id, created_at, last_activity, count, metadata in rows
            )

    def close(self) -> None:
        """Let go of the file. Twice is harmless; every other method fails afterwards."""
        with self._lock:
            self._closed = True
            self._connection.close()

    def _check(self) -> None:
        """Refuse a file that is not ours or not of this version. The first look at it, so damage may show."""
        [application] = self._connection.execute("PRAGMA application_id").fetchone()
        [version] = self._connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise ConfigError(str(self.path), "is a database, but not one of sessions", "name another file")
        if version > _VERSION:
            problem = f"was written by a newer version: its tables are of version {version}, known is {_VERSION}"
            raise ConfigError(str(self.path), problem, "upgrade gaia-mcp-bridge, or name another file")
        if version < 1:
            raise ConfigError(str(self.path), f"is damaged: its tables are of version {version}", _RESCUE)

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        """Commit all of the block, or nothing of it."""
        with self._lock, self._translating():
            if self._closed:
                raise SessionStoreError(self.path, "the store was closed")
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def _translating(self) -> Generator[None]:
        """Translate SQLite's errors into ones that the user can act on."""
        try:
            yield
        except json.JSONDecodeError as error:
            raise ConfigError(str(self.path), f"is damaged: a value in it is no JSON: {error}", _RESCUE) from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of it goes into details
            if code in _DAMAGED:
                raise ConfigError(str(self.path), f"is damaged, or is no database: {error}", _RESCUE) from error
            if code in _UNUSABLE:
                hint = "make it writable, or name another file"
                raise ConfigError(str(self.path), f"{_UNUSABLE[code]}: {error}", hint) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise SessionStoreError(self.path, "another process has been writing to it for too long") from error
            raise SessionStoreError(self.path, _FAILURES.get(code, str(error))) from error


def _prepare_file(path: Path) -> None:
    """See to it that there is a file, and that it is private.

    Raises:
        ConfigError: There cannot be one, or what is there is something else.
    """
    try:
        make_private_folder(path.parent)
        if not path.exists():
            _create(path)
        # Never opened here: closing it again would drop the locks that SQLite holds on it in this process (POSIX).
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(str(path), "is not a regular file", "name another file")
        if status.st_size == 0:
            raise ConfigError(str(path), "is empty, and no store of sessions ever is", _RESCUE)
        if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be used: {error.strerror}", "name another file") from None


def _create(path: Path) -> None:
    """Make the file in one step, so that no process ever finds an unfinished one there."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # of mode 0600
    os.close(descriptor)
    draft = Path(name)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(_TABLES)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process made one meanwhile
        except OSError:  # a file system without links
            draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


def _text(value: object) -> str:
    """Encode a value as JSON. In ASCII: a lone surrogate, as a model may write one, comes back as it was."""
    try:
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"a session has something in it that JSON cannot carry: {error}") from None


def _valid_id(session_id: str) -> str:
    try:
        session_id.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{session_id!r} cannot be the id of a session: it has half a character in it") from None
    return session_id


def _microseconds(moment: datetime) -> int:
    if moment.utcoffset() is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; expected a time such as datetime.now(UTC)")
    return (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND


def _common_length(texts: Iterable[str], stored: Iterable[str]) -> int:
    """Count the texts that are the same, from the beginning."""
    same = 0
    for text, other in zip(texts, stored, strict=False):
        if text != other:
            break
        same += 1
    return same
